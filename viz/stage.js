(async function () {
  while (!window.mayne) await new Promise((done) => setTimeout(done, 20));
  const { viewer, about, move, sliders } = window.mayne, THREE = MeshCat.THREE, find = (name) => document.getElementById(name);
  const pane = find("pane"), root = viewer.scene_tree.find(["mayne"]).object;
  const joints = [], children = viewer.scene_tree.find(["mayne", "robot"]).children;
  for (const name in children) joints[parseInt(name)] = children[name].object;
  const ball = about.target ? viewer.scene_tree.find(["mayne", "target"]).object : null;
  const ground = viewer.scene_tree.find(["mayne", "ground"]).object;
  viewer.animator.pause();
  document.body.append(find("told"));  // over the picture, where phones show it too

  // An arrow for the force that acts.
  const paint = new THREE.MeshPhongMaterial({ color: 0xd62728, depthTest: false, transparent: true }), thick = 0.02 * about.size;
  const shaft = new THREE.Mesh(new THREE.CylinderGeometry(thick, thick, 1, 16), paint);
  const head = new THREE.Mesh(new THREE.ConeGeometry(2.5 * thick, 6 * thick, 20), paint), arrow = new THREE.Group();
  arrow.add(shaft, head);
  for (const part of arrow.children) part.renderOrder = 1;  // in front of the robot
  arrow.visible = false;
  root.add(arrow);
  function drawArrow(ends) {
    arrow.visible = ends !== null;
    if (!ends) return;
    const [from, to] = ends.map((end) => new THREE.Vector3(...end)), way = to.clone().sub(from), long = way.length();
    if (long < 1e-6) { arrow.visible = false; return; }
    arrow.position.copy(from);
    arrow.quaternion.setFromUnitVectors(new THREE.Vector3(0, 1, 0), way.divideScalar(long));
    shaft.scale.y = Math.max(long - 6 * thick, 1e-3); shaft.position.y = shaft.scale.y / 2;
    head.position.y = Math.max(long - 3 * thick, 3 * thick);
  }

  // The hand: a point of the robot, or the target, that the pointer holds, in a plane that faces the reader.
  const ray = new THREE.Raycaster(), pointer = new THREE.Vector2(), plane = new THREE.Plane();
  let held = null;  // {joint, point} or {ball}
  function aim(event) {
    const box = pane.getBoundingClientRect();
    pointer.set(2 * (event.clientX - box.left) / box.width - 1, 1 - 2 * (event.clientY - box.top) / box.height);
    ray.setFromCamera(pointer, viewer.camera);
  }
  function jointOf(object) {
    for (let node = object; node; node = node.parent) if (joints.includes(node)) return joints.indexOf(node);
    return 0;
  }
  pane.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    aim(event);
    const shown = joints.filter(Boolean), hit = ray.intersectObjects(ball ? [ball, ...shown] : shown, true)[0];
    if (!hit) return;
    const joint = jointOf(hit.object);
    held = joint ? { joint: joint, point: joints[joint].worldToLocal(hit.point.clone()).toArray() } : { ball: true };
    plane.setFromNormalAndCoplanarPoint(viewer.camera.getWorldDirection(new THREE.Vector3()), hit.point);
    held.depth = plane.distanceToPoint(viewer.camera.getWorldPosition(new THREE.Vector3()));
    viewer.controls.enabled = false;
    pane.setPointerCapture(event.pointerId);
    event.preventDefault();
  }, true);
  pane.addEventListener("pointermove", (event) => { if (held && event.isPrimary) aim(event); });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    pane.addEventListener(end, (event) => { if (event.isPrimary) letGo(); });
  }
  window.addEventListener("blur", () => { letGo(); pressed.clear(); });
  function letGo() { held = null; viewer.controls.enabled = true; }
  function under() {  // the pointer, in the world of the robot
    const eye = viewer.camera.getWorldPosition(new THREE.Vector3()), to = viewer.camera.getWorldDirection(new THREE.Vector3());
    plane.setFromNormalAndCoplanarPoint(to, eye.addScaledVector(to, -held.depth));
    const place = ray.ray.intersectPlane(plane, new THREE.Vector3());
    return place === null ? null : root.worldToLocal(place).toArray();
  }

  // Commands: keys, pads, a gamepad; forward, left, turning, each from -1 to 1.
  const pressed = new Set(), pads = [0, 0, 0], command = [0, 0, 0];
  const keys = {
    ArrowUp: [0, 1], KeyW: [0, 1], ArrowDown: [0, -1], KeyS: [0, -1], ArrowLeft: [2, 1], KeyA: [2, 1],
    ArrowRight: [2, -1], KeyD: [2, -1], KeyQ: [1, 1], KeyE: [1, -1],
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
    if (event.target.type === "range" && event.code.startsWith("Arrow")) return;
    if (event.code === "KeyR") again = true;
    if (event.code === "Space" && !["BUTTON", "SUMMARY"].includes(event.target.tagName) && event.target.type !== "checkbox") kick();
    else if (event.code in keys && about.commands.length) pressed.add(event.code);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keyup", (event) => pressed.delete(event.code));
  function pad(element, act) {
    const knob = element.querySelector("i");
    const put = (x, y) => { knob.style.transform = `translate(${x * 30}px, ${y * 30}px)`; act(x, y); };
    element.onpointerdown = (event) => { element.setPointerCapture(event.pointerId); element.onpointermove(event); };
    element.onpointermove = (event) => {
      if (!element.hasPointerCapture(event.pointerId)) return;
      const box = element.getBoundingClientRect(), wide = element.dataset.flat === undefined;
      const part = (at, low, size) => Math.min(Math.max(2 * (at - low) / size - 1, -1), 1);
      put(part(event.clientX, box.left, box.width), wide ? part(event.clientY, box.top, box.height) : 0);
    };
    element.onpointerup = element.onpointercancel = () => put(0, 0);
  }
  pad(find("walk"), (x, y) => { pads[0] = -y; pads[1] = -x; });
  pad(find("turn"), (x) => { pads[2] = -x; });
  find("pads").hidden = about.commands.length === 0;
  find("walk").title = about.commands.slice(0, 2).join(", ") + ": W S Q E";
  find("turn").title = (about.commands[2] || "") + ": A D, or left and right";
  function commanded() {
    const wish = [...pads];
    for (const code of pressed) wish[keys[code][0]] += keys[code][1];
    const stick = [...(navigator.getGamepads ? navigator.getGamepads() : [])].find(Boolean);
    if (stick && stick.axes.length >= 3) [-stick.axes[1], -stick.axes[0], -stick.axes[2]].forEach((part, k) => {
      if (Math.abs(part) > 0.12) wish[k] += part;
    });
    wish.forEach((part, k) => { command[k] += Math.min(Math.max(Math.min(Math.max(part, -1), 1) - command[k], -0.06), 0.06); });
    return command;
  }

  // Kicks go from the reader into the picture, along the ground.
  let again = false, kicks = [];
  function kick() {
    const to = viewer.camera.getWorldDirection(new THREE.Vector3()), flat = root.worldToLocal(root.localToWorld(new THREE.Vector3()).add(to));
    flat.z = 0;
    if (flat.length() < 1e-3) flat.set(1, 0, 0);
    kicks.push(flat.normalize().toArray());
  }
  find("kick").onclick = kick;
  find("again").onclick = () => { again = true; };

  const who = String(Math.random());
  let first = true, center = window.mayne.center;
  for (let failed = 0; failed < 3;) {
    const place = held ? under() : null;
    const asked = {
      who: who, first: first, command: commanded(), kicks: kicks.splice(0), again: again,
      hand: place && held.joint ? { joint: held.joint, point: held.point, toward: place } : null,
      target: place && held.ball ? place : null,
      numbers: first ? null : Object.fromEntries(sliders.map((slider) => [slider.name, slider.value])),
    };
    again = false;
    try {
      const answer = await (await fetch(location.href, { method: "POST", body: JSON.stringify(asked) })).json();
      if (first) sliders.forEach((slider) => slider.set(answer.numbers[slider.name]));  // as the last page left them
      first = false; failed = 0;
      find("told").textContent = answer.told;
      if (answer.places) see(answer);
    } catch (reason) {
      failed += 1;
      find("told").textContent = "The program has ended.";
    }
    await new Promise(requestAnimationFrame);
  }
  function see(answer) {
    answer.places.forEach((place, k) => {
      if (!joints[k + 1]) return;
      joints[k + 1].position.set(...place.slice(0, 3));
      joints[k + 1].quaternion.set(...place.slice(3));
    });
    if (ball) ball.position.set(...answer.target);
    if (find("follow").checked) {
      const middle = [0, 1, 2].map((axis) => answer.places.reduce((sum, place) => sum + place[axis], 0) / answer.places.length);
      center = center.map((c, axis) => c + (axis < 2 ? 0.1 * (middle[axis] - c) : 0));  // softly, so that steps do not shake it
      move(center);
    }
    if (about.follows) ground.position.set(...[0, 1].map((axis) => about.cell * Math.round((center[axis] - window.mayne.center[axis]) / about.cell)), 0);
    drawArrow(answer.arrow);
    window.mayne.seen = (window.mayne.seen || 0) + 1;
    viewer.set_dirty();
  }
})();

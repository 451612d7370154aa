(async function () {
  const find = (name) => document.getElementById(name), pane = find("pane");
  let viewer, scene;
  try {
    viewer = new MeshCat.Viewer(pane);
  } catch (reason) {
    pane.textContent = "This animation needs WebGL, which this browser does not offer: " + reason;
    return;
  }
  try {
    scene = await unpack(find("scene"));
  } catch (reason) {
    pane.textContent = "This browser cannot unpack the animation: " + reason;
    return;
  }
  for (const message of scene.messages) viewer.handle_command(message);
  viewer.gui.domElement.style.display = "none";
  window.viewer = viewer;
  const duration = scene.duration, player = viewer.animator, time = find("time");

  find("play").onclick = () => player.playing ? player.pause() : player.play();
  find("speed").onchange = (event) => { player.mixer.timeScale = Number(event.target.value); };
  const seek = (when) => { player.pause(); player.time = when; player.seek(when); time.value = when; };
  time.oninput = () => seek(Number(time.value));
  const step = (by) => seek(Math.min(Math.max(Math.min(player.time, duration) + by, 0), duration));
  const keys = {
    " ": () => find("play").onclick(), ArrowLeft: () => step(-0.02), ArrowRight: () => step(0.02),
    Home: () => seek(0), End: () => seek(duration),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT" || event.ctrlKey || event.altKey || event.metaKey) return;
    if (["BUTTON", "SUMMARY"].includes(event.target.tagName) && event.key === " ") return;  // which presses it
    if (event.target.type === "checkbox" && event.key === " ") return;
    if (event.key in keys) { keys[event.key](); event.preventDefault(); }
  });
  for (const box of document.querySelectorAll("[data-paths]")) {
    box.onchange = () => {
      for (const path of JSON.parse(box.dataset.paths)) {
        viewer.handle_command({ type: "set_property", path: path, property: "visible", value: box.checked });
      }
    };
  }

  // The camera: a ball of scene.radius about the origin stays in the picture, however wide that is.
  function fit() {
    viewer.set_3d_pane_size();
    if (scene.radius === 0) return;
    const half = Math.tan(Math.PI / 180 * scene.field_of_view / 2);
    const ball = Math.tan(Math.asin(Math.sin(Math.atan(half)) / scene.room));
    viewer.camera.zoom = Math.min(1, viewer.camera.aspect * half / ball);
    viewer.camera.updateProjectionMatrix();
    viewer.set_dirty();
  }
  const views = { corner: [0.74, -0.55, 0.38], front: [1, 0, 0.05], side: [0, -1, 0.05], top: [0.001, 0, 1] };
  find("view").onchange = (event) => {
    const to = views[event.target.value];
    if (!to) return;
    const size = Math.hypot(...to), far = viewer.camera.position.length() / size;
    viewer.handle_command({
      type: "set_property", path: "/Cameras/default/rotated/<object>", property: "position",
      value: [far * to[0], far * to[2], -far * to[1]],  // its y axis points up
    });
    event.target.value = "";
  };
  function follow(now) {
    const k = Math.max(0, scene.times.findLastIndex((t) => t <= now)), next = Math.min(k + 1, scene.times.length - 1);
    const span = scene.times[next] - scene.times[k], part = span > 0 ? (now - scene.times[k]) / span : 0;
    const at = scene.center.map((c, i) => c + (scene.path[k][i] - scene.path[0][i])
      + part * (scene.path[next][i] - scene.path[k][i]));
    move(at);
  }
  function move(to) {
    const matrix = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, -to[0], -to[1], -to[2], 1];
    viewer.handle_command({ type: "set_transform", path: "/mayne", matrix: matrix });
  }
  find("follow").onchange = (event) => { if (!event.target.checked) move(scene.center); };
  if (matchMedia("(max-width: 700px)").matches) find("about").open = false;
  new ResizeObserver(fit).observe(pane);
  fit();

  (function show() {
    const now = Math.min(player.time, duration);
    if (player.playing) time.value = now;
    if (find("follow").checked) follow(now);
    find("clock").textContent = now.toFixed(2) + " / " + duration.toFixed(2) + " s";
    find("play").innerHTML = player.playing ? "&#10074;&#10074;" : "&#9654;";
    requestAnimationFrame(show);
  })();

  async function unpack(part) {
    const packed = Uint8Array.from(atob(part.textContent.trim()), (c) => c.charCodeAt(0));
    part.remove();
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const scene = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let at = 4 + length;
    const word = (size, count, k) => {  // byte by byte: all lowest ones first
      let value = 0;
      for (let b = 0; b < size; b++) value += bytes[at + b * count + k] * 2 ** (8 * b);
      return value;
    };
    const arrays = scene.arrays.map((about) => {
      const n = about.count, vertices = about.kind === "vertices";
      const values = vertices ? new Float32Array(3 * n) : new Uint32Array(3 * n);
      if (vertices) {
        for (let axis = 0; axis < 3; axis++) {
          for (let k = 0, sum = 0; k < n; k++) {
            sum = (sum + word(2, n, k)) & 0xffff;
            values[3 * k + axis] = about.low[axis] + about.step * sum;
          }
          at += 2 * n;
        }
      } else {
        for (let k = 0, sum = 0; k < 3 * n; k++) {
          const zigzag = word(4, 3 * n, k);
          sum += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
          values[k] = sum;
        }
        at += 12 * n;
      }
      return values;
    });
    for (const message of scene.messages) {
      if (message.type !== "set_object") continue;
      for (const shape of message.object.geometries || []) {
        const parts = [shape.data.attributes.position, shape.data.index];
        for (const part of parts) part.array = arrays[part.array.array];
      }
    }
    return scene;
  }
})();

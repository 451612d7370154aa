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
  for (const message of scene.messages) tell(message);
  viewer.gui.domElement.style.display = "none";
  window.viewer = viewer;
  function tell(message) {  // meshcat writes into animations
    viewer.handle_command(message.type === "set_animation" ? structuredClone(message) : message);
  }
  const player = viewer.animator, time = find("time");

  find("play").onclick = () => player.playing ? player.pause() : player.play();
  find("speed").onchange = (event) => { player.mixer.timeScale = Number(event.target.value); };
  const seek = (when) => { player.pause(); player.time = when; player.seek(when); time.value = when; };
  time.oninput = () => seek(Number(time.value));
  const step = (by) => seek(Math.min(Math.max(Math.min(player.time, scene.duration) + by, 0), scene.duration));
  const keys = {
    " ": () => find("play").onclick(), ArrowLeft: () => step(-0.02), ArrowRight: () => step(0.02),
    Home: () => seek(0), End: () => seek(scene.duration),
  };
  document.addEventListener("keydown", (event) => {
    if (scene.stage || event.target.tagName === "SELECT" || event.ctrlKey || event.altKey || event.metaKey) return;
    if (["BUTTON", "SUMMARY"].includes(event.target.tagName) && event.key === " ") return;  // which presses it
    if (event.target.type === "checkbox" && event.key === " ") return;
    if (event.key in keys) { keys[event.key](); event.preventDefault(); }
  });
  function applySwitch(box) {
    for (const path of JSON.parse(box.dataset.paths)) {
      if (box.dataset.switches === "wireframe") {
        viewer.scene_tree.find(path.split("/").filter(Boolean)).object.traverse((mesh) => {
          if (mesh.isMesh) mesh.material.wireframe = box.checked;
        });
        viewer.set_dirty();
      } else {
        viewer.handle_command({ type: "set_property", path: path, property: "visible", value: box.checked });
      }
    }
  }
  for (const box of document.querySelectorAll("[data-paths]")) {
    box.onchange = () => applySwitch(box);
    if (!box.checked) applySwitch(box);
  }

  let reach = 0;
  // The camera: a ball of scene.radius about the origin stays in the picture, however wide that is.
  function fit() {
    viewer.set_3d_pane_size(pane.clientWidth, pane.clientHeight);
    if (scene.radius === 0) return;
    const half = Math.tan(Math.PI / 180 * scene.field_of_view / 2);
    const ball = Math.tan(Math.asin(Math.sin(Math.atan(half)) / scene.room));
    const smaller = reach > scene.radius ? scene.radius / reach : 1;  // an iteration may go further than the solution
    viewer.camera.zoom = smaller * Math.min(1, viewer.camera.aspect * half / ball);
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
  for (const name of ["play", "time", "clock", "speed"]) find(name).hidden = Boolean(scene.stage);
  find("acting").hidden = !scene.stage;
  find("follow").checked = Boolean(scene.stage && scene.stage.follows);
  const narrow = matchMedia("(max-width: 700px)").matches;
  if (narrow) find("about").open = false;

  // Plots: the curves of one quantity, a line where the motion is, and the numbers there.
  const canvas = find("curves");
  let curves = null, left = 46;  // those drawn last, as a picture; what is free on their left for labels
  function listPlots() {
    const chosen = Math.max(find("plot").selectedIndex, 0);
    find("plot").replaceChildren(...scene.plots.map((plot, k) => new Option(plot.title, k, false, k === chosen)));
    find("plotting").hidden = scene.plots.length === 0;
    find("plots").hidden = scene.plots.length === 0 || !find("plotted").checked;
  }
  listPlots();
  find("plotted").checked = !narrow;
  find("plotted").onchange = () => { find("plots").hidden = scene.plots.length === 0 || !find("plotted").checked; };
  find("plotted").onchange();
  find("plot").onchange = () => { curves = null; };
  new ResizeObserver(() => { curves = null; }).observe(canvas);
  function number(y) { return y === null || y === undefined ? "" : Number(y.toPrecision(4)).toString(); }
  function drawPlot(now) {
    if (find("plots").hidden) return;
    const lines = scene.plots[find("plot").value].lines, duration = scene.duration, scale = devicePixelRatio || 1, pen = canvas.getContext("2d", { willReadFrequently: true });
    const wide = canvas.clientWidth, tall = canvas.clientHeight, right = 6, top = 8, bottom = 18;
    if (curves === null) {
      canvas.width = wide * scale; canvas.height = tall * scale;
      const seen = lines.flatMap((line) => line.y).filter((y) => y !== null);
      let low = Math.min(...seen), high = Math.max(...seen);
      const span = Math.max(high - low, 1e-6);
      for (const limit of lines.flatMap((line) => line.limits).flat()) {
        if (limit !== null && limit > low - 0.5 * span && limit < high + 0.5 * span) {
          low = Math.min(low, limit); high = Math.max(high, limit);
        }
      }
      low -= 0.04 * span; high += 0.04 * span;
      const y = (value) => top + (tall - top - bottom) * (high - value) / (high - low);
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      pen.clearRect(0, 0, wide, tall);
      pen.font = "11px system-ui, sans-serif"; pen.fillStyle = "#5a6773"; pen.strokeStyle = "#dfe3e6";
      pen.textBaseline = "middle";
      const rough = (high - low) / 5, decade = Math.pow(10, Math.floor(Math.log10(rough)));
      const apart = decade * [1, 2, 5, 10].find((step) => step * decade >= rough);
      const ticks = [];
      for (let k = Math.ceil(low / apart); k * apart <= high; k++) ticks.push(Number((k * apart).toPrecision(6)));
      left = Math.max(46, ...ticks.map((tick) => 8 + pen.measureText(tick).width));
      const x = (t) => left + (wide - left - right) * t / duration;
      for (const tick of ticks) {
        const at = y(tick);
        pen.beginPath(); pen.moveTo(left, at); pen.lineTo(wide - right, at); pen.stroke();
        pen.textAlign = "right"; pen.fillText(tick.toString(), left - 5, at);
      }
      pen.textAlign = "left"; pen.fillText("0", left, tall - 7);
      pen.textAlign = "right"; pen.fillText(duration.toFixed(2) + " s", wide - right, tall - 7);
      pen.save(); pen.beginPath(); pen.rect(left, 0, wide - left - right, tall - bottom + 2); pen.clip();
      const stroke = (line, values, dashes, width) => {
        pen.beginPath(); pen.setLineDash(dashes); pen.strokeStyle = line.color; pen.lineWidth = width;
        let drawing = false, before = 0;
        values.forEach((value, k) => {
          if (value === null) { drawing = false; return; }
          if (drawing && line.held) pen.lineTo(x(line.t[k]), y(before));
          drawing ? pen.lineTo(x(line.t[k]), y(value)) : pen.moveTo(x(line.t[k]), y(value));
          drawing = true; before = value;
        });
        if (line.held && drawing) pen.lineTo(x(duration), y(before));
        pen.stroke();
      };
      for (const line of lines) {
        for (const limit of line.limits) stroke(line, limit, [4, 4], 0.8);
        stroke(line, line.y, [], 1.5);
      }
      pen.restore();
      curves = pen.getImageData(0, 0, canvas.width, canvas.height);
      find("values").replaceChildren(...lines.map((line) => {
        const row = document.createElement("div"), swatch = document.createElement("i");
        swatch.style.background = line.color;
        row.append(swatch, Object.assign(document.createElement("span"), { textContent: line.label }),
          document.createElement("span"));
        return row;
      }));
    }
    pen.putImageData(curves, 0, 0);
    const at = left + (wide - left - right) * now / duration;
    pen.setLineDash([]); pen.strokeStyle = "#23313d"; pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(at, top); pen.lineTo(at, tall - bottom); pen.stroke();
    lines.forEach((line, k) => {
      const row = find("values").children[k], found = line.t.findLastIndex((t) => t <= now + 1e-9);
      row.lastChild.textContent = number(line.y[Math.max(found, 0)]);
    });
  }
  new ResizeObserver(fit).observe(pane);
  fit();

  // Iterations: motions on the way to the solution, in place of it; the slider's last place is the solution.
  const picker = find("iteration"), iterations = scene.iterations, solved = { told: "the solution", messages: null };
  function offer(iteration) {
    const newest = picker.value === picker.max;
    if (iteration) iterations.push(iteration);
    find("iterating").hidden = iterations.length === 0;
    picker.max = iterations.length - (scene.live ? 1 : 0);
    if (newest || !iteration) pick(Number(picker.max));
  }
  function pick(k) {
    picker.value = k;
    const shown = iterations[k] || solved;
    reach = shown.reach || 0;
    put(shown.messages || scene.messages.filter((m) => m.type === "set_animation" || m.path.startsWith("/mayne/traces/")));
    if (!shown.messages) {
      for (const path of ["/mayne/contacts", "/mayne/center of mass"]) {
        viewer.handle_command({ type: "set_property", path: path, property: "visible", value: true });
      }
      document.querySelectorAll("[data-paths]").forEach(applySwitch);
    }
    find("told").textContent = shown.told;
    fit();
  }
  picker.oninput = () => pick(Number(picker.value));
  if (iterations.length) offer(null);
  async function listen() {  // to a solve that goes on
    for (let since = 0; ;) {
      let answer;
      try {
        answer = await (await fetch(location.href, { method: "POST", body: JSON.stringify({ since: since }) })).json();
      } catch (reason) {
        find("told").textContent += " (the program has ended)";
        return;
      }
      if (answer.variant) {
        since = answer.since;
        offer((await unpack({ textContent: answer.variant, remove() {} })).iterations[0]);
      }
      if (answer.ended) {
        await show_instead(answer.scene);
        solved.told = answer.told;
        offer(null);
        return;
      }
      await new Promise((done) => setTimeout(done, 1000 * answer.wait));
    }
  }
  if (scene.live) listen();

  // Sliders: a new scene is asked for while they move, one at a time, and the picture stays where it is.
  let asked = false, asking = false;
  for (const slider of scene.sliders) {
    const row = document.createElement("label"), range = document.createElement("input");
    const value = document.createElement("output");
    Object.assign(range, { type: "range", min: 0, max: 1, step: 0.001 });
    const shown = (part) => slider.logarithmic
      ? slider.low * Math.pow(slider.high / slider.low, part) : slider.low + part * (slider.high - slider.low);
    slider.set = (chosen) => {
      slider.value = chosen;
      range.value = slider.logarithmic
        ? Math.log(chosen / slider.low) / Math.log(slider.high / slider.low)
        : (chosen - slider.low) / (slider.high - slider.low);
      tell();
    };
    const first = slider.value;
    slider.reset = () => slider.set(first);
    const tell = () => { value.textContent = number(slider.value) + (slider.unit ? " " + slider.unit : ""); };
    range.oninput = () => { slider.value = shown(Number(range.value)); tell(); turned(); };
    range.onpointerup = () => range.blur();  // keys are the robot's again
    row.append(slider.label, value, range);
    find("sliders").append(row);
    slider.reset();
  }
  find("turning").hidden = scene.sliders.length === 0;
  find("turning").open = !scene.stage;
  find("reset").onclick = () => { scene.sliders.forEach((slider) => slider.reset()); turned(); };
  function turned() {
    asked = true;
    if (!scene.stage) ask();  // stage.js tells them as it asks
  }
  async function ask() {
    if (asking) return;
    asking = true;
    while (asked) {
      asked = false;
      const values = Object.fromEntries(scene.sliders.map((slider) => [slider.name, slider.value]));
      try {
        const answer = await (await fetch(location.href, { method: "POST", body: JSON.stringify(values) })).json();
        find("told").textContent = answer.told;
        if (answer.scene) await show_instead(answer.scene);
      } catch (reason) {
        find("told").textContent = "The program that solves has ended: " + reason;
      }
    }
    asking = false;
  }
  async function show_instead(block) {
    const next = await unpack({ textContent: block, remove() {} });
    scene = { ...next, sliders: scene.sliders, radius: scene.radius, center: scene.center };
    time.max = scene.duration;
    curves = null;
    listPlots();
    put(next.messages.filter((m) => m.path.startsWith("/mayne/") || m.type === "set_animation"));
  }
  function put(messages) {  // into the scene, and go on where the motion was
    const now = player.time, playing = player.playing;
    for (const message of messages) tell(message);
    playing ? player.time = now : seek(Math.min(now, scene.duration));
  }

  // A film of one round, by the browser's own recorder.
  const recording = find("record");
  recording.hidden = scene.stage || !(window.MediaRecorder && HTMLCanvasElement.prototype.captureStream);
  recording.onclick = () => {
    const kind = ["video/webm", "video/mp4"].find((kind) => MediaRecorder.isTypeSupported(kind));
    const recorder = new MediaRecorder(viewer.renderer.domElement.captureStream(60), { mimeType: kind, videoBitsPerSecond: 8e6 });
    const parts = [];
    recorder.ondataavailable = (event) => parts.push(event.data);
    recorder.onstop = () => {
      const link = document.createElement("a"), kept = URL.createObjectURL(new Blob(parts, { type: kind }));
      Object.assign(link, { href: kept, download: document.title.replace(/[^\w-]+/g, "-") + "." + kind.slice(6) });
      link.click();
      recording.disabled = false;
      recording.textContent = "record";
    };
    recording.disabled = true;
    recording.textContent = "recording";
    seek(0);
    recorder.start(200);
    player.play();
    let before = 0;
    (function watch() {
      if (player.time >= scene.duration || player.time < before) return recorder.stop();  // or it has started over
      before = player.time;
      requestAnimationFrame(watch);
    })();
  };
  window.mayne = { viewer, seek, fit, follow, move, duration: scene.duration, center: scene.center, about: scene.stage, sliders: scene.sliders };

  (function show() {
    const duration = scene.duration, now = Math.min(player.time, duration);
    if (player.playing) time.value = now;
    if (scene.stage) return;  // stage.js moves the robot
    if (find("follow").checked) follow(now);
    drawPlot(now);
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
    for (const message of [...scene.messages, ...(scene.iterations || []).flatMap((one) => one.messages)]) {
      if (message.type !== "set_object") continue;
      for (const shape of message.object.geometries || []) {
        const parts = [shape.data.attributes.position, shape.data.index];
        for (const part of parts) part.array = arrays[part.array.array];
      }
    }
    return scene;
  }
})();

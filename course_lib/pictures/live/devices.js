// A decoding step on more and more devices: each reads less, and their sums take longer.

const {model, bytes, memory, read, machine, degrees, ways, sliders: values, first} = data;
const RING = 0, ALL_AT_ONCE = 2, PARTS = ["weights", "cache", "sending", "waiting"], COLORS = [1, 3, 0, 5];
const SAYS = {
  none: "This does not fit: on {n} devices each would hold {gigabytes} GB, more than the {memory} GB of an H100, and the cache shrinks only up to {kvHeads} devices, one for each kv head.",
  last: "{n} devices are fastest, the most there are here: what they save in reading is still more than what their sums cost.",
  network: "{n} devices are fastest: a ring of {more} leaves the machine, so every step is as slow as the network, which costs {lost} ms more than reading saves.",
  longer: "{n} devices are fastest: {more} would save {saved} ms of reading, but spend {longer} ms more on the all-reduces, mostly on {mostly}.",
};
const state = {...first, way: 0};

// As in devices.py: [seconds of sending, seconds of waiting] of one all-reduce, bytes on a device, and the parts of a step.
const ring = (size, n, wait, send) => [2 * (n - 1) * size / n / send, 2 * (n - 1) * wait];
function allReduce(size, n, way, {waitWithin, waitBetween, sendWithin, sendBetween}) {
  if (n > machine && way === RING) return ring(size, n, waitBetween, sendBetween);
  const within = Math.min(n, machine), [sending, waiting] = ring(size, within, waitWithin, sendWithin);
  const between = ring(size / within, n / within, waitBetween, sendBetween);
  return [sending + between[0], (way === ALL_AT_ONCE ? 2 * waitWithin : waiting) + between[1]];
}
function bytesOnDevice(n, {texts, tokens}) {
  const {layers, d_model, heads, kv_heads, width, hidden} = model, columns = 2 * (heads + kv_heads) * width + 3 * hidden;
  return [bytes * layers * columns * d_model / n, bytes * layers * 2 * texts * tokens * Math.max(1, Math.floor(kv_heads / n)) * width];
}
function decodingStep(n, state) {
  const sums = allReduce(bytes * state.texts * model.d_model, n, state.way, state);
  return [...bytesOnDevice(n, state).map(size => size / read), ...sums.map(seconds => 2 * model.layers * seconds)];
}
const held = n => sum(bytesOnDevice(n, state)), fits = n => held(n) <= memory, gigabytes = n => Math.ceil(held(n) / 1e9);

const inMs = seconds => (1000 * seconds).toFixed(1);
const wait = seconds => `${three(1e6 * seconds)}\u00a0µs`, send = rate => `${three(rate / 1e9)}\u00a0GB/s`;
const NAMES = {
  texts: ["Texts", count => `${count}`],
  tokens: ["Tokens", count => `${count.toLocaleString("en")} in each cache`],
  waitWithin: ["Latency in a machine", wait],
  waitBetween: ["Latency between machines", wait],
  sendWithin: ["Sending in a machine", send],
  sendBetween: ["Sending between machines", send],
};
const sliders = Object.entries(NAMES).map(([name, [title]]) => new Slider(title, values[name].length - 1, number => set({[name]: values[name][number]})));
const choice = new Choice("All-reduce", ways, way => set({way}));
const said = new Sentence(Object.values(SAYS)), bars = make("dl", {className: "facts"});

function sentence(best, steps) {
  const n = best ?? degrees.at(-1), more = 2 * n, shown = {n, more, gigabytes: gigabytes(n), memory: memory / 1e9, kvHeads: model.kv_heads};
  if (best && degrees.includes(more)) {
    const [now, next] = [n, more].map(count => steps[degrees.indexOf(count)]), [weights, cache, sending, waiting] = next.map((seconds, i) => seconds - now[i]);
    Object.assign(shown, {saved: inMs(-weights - cache), longer: inMs(sending + waiting), lost: inMs(sum(next) - sum(now)), mostly: sending > waiting ? "sending" : "waiting"});
  }
  const says = !best ? "none" : !degrees.includes(more) ? "last" : state.way === RING && n === machine ? "network" : "longer";
  return SAYS[says].replace(/{(\w+)}/g, (_, name) => shown[name]);
}

function show() {
  const steps = degrees.map(n => decodingStep(n, state)), times = steps.map(sum), longest = Math.max(...times);
  const best = degrees.filter(fits).reduce((one, n) => times[degrees.indexOf(n)] < (times[degrees.indexOf(one)] ?? Infinity) ? n : one, undefined);
  bars.replaceChildren(...degrees.flatMap((n, i) => {
    const bar = styled(make("div", {className: "share"}, ...COLORS.map((color, part) =>
      styled(make("i"), {width: `${100 * steps[i][part] / longest}%`, background: `var(--head-${color})`, borderRadius: 0}))), {display: "flex"});
    const parts = PARTS.flatMap((name, part) => [make("b", {className: `head${COLORS[part]}`, textContent: `${name} ${inMs(steps[i][part])}`}), " "]);
    const mark = fits(n) ? n === best ? "✓ fastest" : "" : make("strong", {textContent: `✗ ${gigabytes(n)} GB on each`});
    return [make("dt", {textContent: `${n} devices`}), make("dd", {}, bar, `${inMs(times[i])} ms: `, ...parts, mark)];
  }));
  Object.entries(NAMES).forEach(([name, [, words]], i) => sliders[i].set(values[name].indexOf(state[name]), words(state[name])));
  choice.press(state.way);
  said.say(sentence(best, steps));
  address.set([state.way, ...Object.keys(NAMES).map(name => values[name].indexOf(state[name]))].join(","));
}

function set(change) {
  Object.assign(state, change);
  show();
}

const note = make("p", {className: "note", textContent: `Milliseconds of one decoding step of Llama 3 70B, ${bytes} bytes a number, on H100s, ${machine} in a machine. Reading, sending and waiting are taken to follow one another.`});
begin(choice.element, said.element, make("div", {className: "beside"}, make("div", {}, bars, note), make("div", {className: "sliders"}, ...sliders.map(slider => slider.element))));
address.follow(() => {
  const [way, ...numbers] = address.get().split(",").map(Number);
  set({...Object.fromEntries(Object.keys(NAMES).map((name, i) => [name, values[name][numbers[i]] ?? first[name]])), way: way in ways ? way : 0});
});

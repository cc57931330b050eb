// A plane of 300 units' width, whose second number counts upwards, with arrows, points, and labels where there is room.

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  element.append(...children);
  return set(element, attributes);
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

class Plane {
  constructor(label, [left, bottom, right, top]) {
    this.scale = 300 / (right - left);
    Object.assign(this, {left, top, height: (top - bottom) * this.scale, lines: [], labels: []});
    this.element = svg("svg", {viewBox: `0 0 300 ${this.height}`, class: "plane", role: "group", "aria-label": label});
  }

  at([x, y]) {
    return [(x - this.left) * this.scale, (this.top - y) * this.scale];
  }

  // Where in the plane a pointer is.
  under({clientX, clientY}) {
    const {left, top, width} = this.element.getBoundingClientRect(), pixel = width / 300 * this.scale;
    return [this.left + (clientX - left) / pixel, this.top - (clientY - top) / pixel];
  }

  add(tag, attributes, ...children) {
    const element = svg(tag, attributes, ...children);
    this.element.append(element);
    return element;
  }

  polygon(points, kind) {
    return this.add("polygon", {points: points.map(point => this.at(point)).join(" "), class: kind});
  }

  arrow(kind) {
    return this.add("g", {class: kind}, svg("path"), svg("path", {class: "tip"}));
  }

  // Lays an arrow from the origin to a point; it is `width` pixels thick.
  lay(arrow, to, width) {
    const [x, y] = this.at([0, 0]), [toX, toY] = this.at(to), length = Math.hypot(toX - x, toY - y) || 1;
    const tip = Math.min(7 + 1.5 * width, length), [across, down] = [(toX - x) / length, (toY - y) / length];
    const [baseX, baseY] = [toX - tip * across, toY - tip * down], half = 3 + width * .9;
    const [line, head] = arrow.children;
    line.setAttribute("d", `M${x} ${y}L${baseX} ${baseY}`);
    line.setAttribute("stroke-width", width);
    head.setAttribute("d", `M${toX} ${toY}L${baseX - half * down} ${baseY + half * across}L${baseX + half * down} ${baseY - half * across}Z`);
  }

  // Keeps labels away from a line.
  keepFree(from, to) {
    const [[x, y], [toX, toY]] = [this.at(from), this.at(to)], steps = Math.max(1, Math.floor(Math.hypot(toX - x, toY - y) / 6));
    for (let i = 0; i <= steps; i++) {
      const [across, down] = [x + (toX - x) * i / steps, y + (toY - y) * i / steps];
      this.lines.push([across - 4, down - 4, across + 4, down + 4]);
    }
  }

  // Writes a label at least `near` units away from a point, on the side away from `origin` if there is room, or else over a line.
  label(text, point, origin, near) {
    const [x, y] = this.at(point), [fromX, fromY] = this.at(origin), outward = Math.atan2(y - fromY, x - fromX), wide = 4 + text.length * 8, high = 15;
    const turns = [0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5].map(turn => turn * Math.PI / 9), boxes = [near, near + 5, near + 12].flatMap(away => turns.map(turn => {
      const [across, down] = [Math.cos(outward + turn), Math.sin(outward + turn)], middle = [x + across * (away + wide / 2), y + down * (away + high / 2)];
      return [middle[0] - wide / 2, middle[1] - high / 2, middle[0] + wide / 2, middle[1] + high / 2];
    }));
    const free = ([a, b, c, d], taken) => a >= 0 && b >= 0 && c <= 300 && d <= this.height && !taken.some(([e, f, g, h]) => a < g && e < c && b < h && f < d);
    const box = boxes.find(box => free(box, [...this.lines, ...this.labels])) ?? boxes.find(box => free(box, this.labels)) ?? boxes[0];
    this.labels.push(box);
    return this.add("text", {x: (box[0] + box[2]) / 2, y: box[3] - 3}, text);
  }
}

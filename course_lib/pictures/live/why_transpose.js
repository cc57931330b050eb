// Twenty-four numbers on their way from one table to a table for each head; the memory below never moves.

const said = new Sentence(data.steps.map(step => step.says));
const stage = new Stage(data.memory);
const reading = make("p", {className: "reading"});
const tables = data.steps.map(step => step.tables);
const steps = new Steps(data.steps.map(step => step.name), number => {
  const step = data.steps[number];
  said.say(step.says);
  reading.replaceChildren(...prose(step.reading));
  stage.show(step.tables, data.memory, data.note, tables);
  address.set(`step-${number + 1}`);
});
begin(steps.element, said.element, reading, stage.element);
steps.go((Number(/^step-(\d)$/.exec(address.get())?.[1]) || 1) - 1);

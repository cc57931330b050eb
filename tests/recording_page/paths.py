"""Follow numbers through a page's data, as its script does."""


def positions(text):
    """Read "0*3 10": the positions 0, 1, 2 and 10."""
    found = []
    for part in text.split():
        first, count, step = [*map(int, part.split("*")), 1, 1][:3] if "*" in part else (int(part), 1, 1)
        found += range(first, first + count * step, step)
    return found


def sources(story, key, cell):
    """Return the direct sources of a number as (key of a tensor, position)."""
    stage = next((stage for stage in story.stages if stage.result.key == key), None)
    found = []
    for source, table in zip(stage.reads, stage.sources, strict=True) if stage else ():
        own = positions(table[0][table[1][cell]]) if table and table != "all" else [cell]
        places = range(source.numel) if table == "all" else own
        found += [(source.key, place) for place in places]
    return found


def back(story, key, cell):
    """Return all numbers that a number depends on, as key of a tensor -> positions."""
    found, waiting = {}, [(key, cell)]
    while waiting:
        for place in sources(story, *waiting.pop()):
            if place[1] not in found.setdefault(place[0], set()):
                found[place[0]].add(place[1])
                waiting.append(place)
    return found


def table_of(story, leaf, result=None):
    """Return on which numbers of a leaf, given by its title, each number of a result, or of the last step, depends."""
    (key,) = (one.key for one in story.leaves if one.title == leaf)
    last = result or story.stages[-1].result
    return [sorted(back(story, last.key, cell).get(key, ())) for cell in range(last.numel)]

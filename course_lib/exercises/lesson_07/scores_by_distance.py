"""The score at each distance."""

from course_lib.exercises.function_exercise import FunctionExercise

from .rotary_table import rotary_table
from .rotate import rotate


def scores_by_distance(query, key, num_distances, base):
    # (head_dim), (head_dim), int, float -> (distance)
    cos, sin = rotary_table(num_distances, len(query), base)
    # (distance, head_dim); the key stays at position 0
    rotated = rotate(query.expand(num_distances, -1), cos, sin)
    return rotated @ key  # (distance, head_dim) @ (head_dim) -> (distance)


EXERCISE = FunctionExercise(
    scores_by_distance,
    title="The score at each distance",
    difficulty=3,
    minutes=8,
    prompt=(
        "One query and one key, not rotated yet. When each is rotated by its own position, their score depends on the "
        "distance alone. Give back the score for each distance from 0 to `num_distances - 1`, not scaled: element n is "
        "the score of a query n positions after its key, wherever the two are. The rotation is that of "
        "the lesson, `rotary_table` and `rotate`, with `base`."
    ),
    hints=(
        "Only the distance counts, so you may choose the positions. Where does the key stand most conveniently?",
        "With the key at position 0 it isn't rotated at all, and a query at distance n stands at position n.",
        "Repeat the query, `query.expand(num_distances, -1)`, rotate row n by position n, and multiply by the key: "
        "`rotate(..., *rotary_table(num_distances, len(query), base)) @ key`.",
    ),
    inputs={
        "query": "2*pair",
        "key": "2*pair",
        "num_distances": lambda half: 2 * half + 3,  # odd, and more than there are pairs
        "base": [10.0, 100.0, 10000.0],
    },
    sizes=(2, 5),
    least={"num_distances": 1},
    most={"num_distances": 300},
    arguments={"query": "head_dim", "key": "head_dim"},
    axes="distance",
    fixed="head_dim",
    own_dtype=True,
    wrong="""
(query @ key).expand(num_distances)
    the score of distance 0 at every distance: if both are rotated by the same angle, nothing between them changes
    ? How far apart do your query and your key stand?
right(key, query, num_distances, base)
    the scores of a query that stands before its key
    ? Which of the two has the larger position?
result / len(query) ** 0.5
    the scores divided by the square root of head_dim; here they are not scaled
    ? Does the task ask for a scale?
order = torch.arange(len(query)).view(-1, 2).T.flatten(); return right(query[order], key[order], num_distances, base)
    the scores with pairs of neighbours; the pairs are the halves of the head
    ? Which element is paired with element 0?
right(query, key, num_distances + 1, base)[1:]
    scores that start at distance 1
    ? What is element 0 if query and key are not rotated at all?
result.flip(0)
    the scores in reverse: the largest distance comes first
    ? Which distance does element 0 belong to?
@ key => @ rotate(key.expand(num_distances, -1), cos, sin).T
    scores at all pairs of positions; one row of distances is asked for
    ? Which elements of your table have the same distance?
rotated @ key => rotated * key
    the products before they are added up
    ? What turns the products into one score?
""",
)

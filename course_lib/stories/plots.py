"""What can happen in a story: the beats of each plot, and for each beat the sentences that can tell it.

Words in braces are facts. `{hero}` and `{friend}` are names; `{animal}` is the hero's kind, `{other animal}` the
friend's; `{a thing}` has its article. `{she}`, `{her}` and `{hers}` stand for the hero, `{other she}` for the friend.
`{giver}` and `{owner}` are the same two names, in an order that the story sets. An empty sentence leaves a beat out.
"""

BEGIN = (
    "Once there was {an animal} named {hero}.",
    "Long ago there was {an animal} whose name was {hero}.",
    "This is the story of {hero} the {animal}.",
    "In a green valley lived {an animal} named {hero}.",
)
LIVED = (
    "{hero} lived near the {place}.",
    "{She} had a little house by the {place}.",
    "Every morning {she} walked to the {place}.",
    "From {hers} window {she} could see the {place}.",
)
OWNED = (
    "{She} had {a colour} {thing}.",
    "What {she} loved most was {hers} {colour} {thing}.",
    "{hero} had made {a colour} {thing} all by {herself}.",
    "For {hers} birthday {she} got {a colour} {thing}.",
)
MEET = (
    "Then {an other animal} came along the road.",
    "Soon {hero} met {an other animal}.",
    "Just then {an other animal} walked by and stopped.",
    "One day {an other animal} knocked at the door.",
)
FRIEND = (
    "The {other animal} was named {friend}.",
    '"I am {friend}," said the {other animal}.',
)
FELT = (
    "So {hero} was very {feeling}.",
    "{She} sat down and felt {feeling}.",
    "Oh, how {feeling} {she} was!",
)
ASK = (
    '"Why are you so {feeling}, {hero}?" asked {friend}.',
    '"What is it?" asked {friend}.',
    '"You look {feeling}," said {friend}.',
)
SMILE = (
    "And {hero} was not {feeling} any more.",
    "Now {hero} could laugh again.",
    "",
)
FRIENDS = (
    "From that day on {hero} and {friend} were friends.",
    "The {animal} and the {other animal} walked home together.",
    "And {hero} and {friend} sat by the {place} until the stars came out.",
    "That was the best day of all for the {animal} and the {other animal}.",
)
GONE = (
    "One day the {thing} was gone.",
    "One morning {she} could not find {hers} {thing}.",
    "But one night the wind took the {thing} away.",
)
TELL = (
    '"My {thing} is gone," said {hero}.',
    '"I have lost my {colour} {thing}," said {hero}.',
)
FOUND = (
    "{friend} looked behind the {other place}, and there was the {colour} {thing}.",
    "So {hero} and {friend} went to the {other place} and found the {thing}.",
    'Then {friend} said, "I saw {a colour} {thing} by the {other place}!"',
)
THANK = (
    '"Thank you, dear {friend}!" cried {hero}.',
    "{hero} took the {thing} and thanked the {other animal}.",
    "{hero} held the {colour} {thing} and danced with {friend}.",
)
OTHER_OWNED = (
    "{friend} had {an other colour} {other thing}.",
    "In {other hers} bag was {an other colour} {other thing}.",
)
SHOW = (
    '"I like your {other colour} {other thing}," said {hero}.',
    '"What a fine {colour} {thing} you have!" said {friend}.',
    "They played with the {colour} {thing} and the {other colour} {other thing} all day.",
)
RAIN = (
    "In the evening it began to rain, and they ran to the {other place}.",
    "Then they were tired and lay down under the {other place}.",
    "At noon they swam in the {other place}.",
)
PACK = (
    "{hero} took the {colour} {thing} home, and {friend} took the {other colour} {other thing}.",
    "Then {hero} put the {thing} away, and {friend} put the {other thing} away.",
    '"Do not forget your {colour} {thing}," said {friend}.',
)
GIVE = (
    "One day {giver} gave {owner} the {thing}.",
    "In winter {giver} brought the {thing} to {owner}.",
    '"This {thing} is for you, {owner}," said {giver}.',
)
GIVEN = (
    '"Thank you, {giver}!" said {owner}.',
    "{owner} jumped for joy and thanked {giver}.",
    "So now it was {owner} who had the {thing}.",
)
KEEP = (
    "And {owner} kept the {colour} {thing} for ever.",
    "Every night {owner} put the {thing} beside the bed.",
    "When {giver} came to visit, {owner} showed {giver} the {colour} {thing}.",
)
PUT = (
    "{She} kept the {thing} under the {other place}.",
    "{hero} hid the {thing} behind the {other place}.",
    "At night {she} left the {thing} by the {other place}.",
)
MOVE = (
    "But {friend} carried the {thing} to the {new place}.",
    "When {hero} was asleep, {friend} took the {thing} to the {new place}.",
    '"It is too wet here," said {friend}, and moved the {thing} to the {new place}.',
)
SEEK = (
    "{hero} looked for it by the {other place}, but it was not there.",
    "In the morning the {other place} was empty.",
    "",
)
SEEN = (
    '"Look by the {new place}!" said {friend}.',
    "At last {she} found the {colour} {thing} at the {new place}.",
    "There it was at the {new place}, as {colour} as ever.",
)
NEED = (
    "One day {she} was {feeling}.",
    "It was a long winter, and {hero} was {feeling}.",
    "That night {hero} felt very {feeling}.",
)
HELP = (
    '"Come with me to the {other place}," said {friend}.',
    "{friend} took {her} to the {other place}.",
    'So {friend} made a fire at the {other place} and said, "Sit down, {hero}."',
)
SHARE = (
    "There they ate an apple cake and told each other stories.",
    "They sang the old song of the valley, first {hero} and then {friend}.",
    "The {other animal} sang, and the {animal} hummed along.",
)
COMFORT = (
    '"Do not be {feeling}, {hero}," said the {other animal}.',
    '"No one is {feeling} for long," said {friend}.',
    "The {feeling} {animal} looked at {friend} and nodded.",
)
WHO_WAS_HERO = ("Who was {hero}? {She} was {an animal}.", "What was the name of the {animal}? It was {hero}.", "")
WHO_WAS_FRIEND = (
    "Who was {friend}? {Other she} was {an other animal}.",
    "What was the name of the {other animal}? It was {friend}.",
    "",
)
WHERE_LIVED = ("Where did {hero} live? Near the {place}.", "")
WHERE_THING = ("Where was the {thing}? At the {other place}.", "")
WHERE_NOW = (
    "Where was the {thing} at first? At the {other place}. And in the end? At the {new place}.",
    "Where was the {thing} in the end? At the {new place}.",
)
WHO_OWNED = ("Who had the {thing} in the end? It was {owner}.", "Who gave it away? It was {giver}.")
WHAT_COLOUR = ("What colour was the {thing}? It was {colour}.", "")
OTHER_COLOUR = (
    "And what colour was the {other thing}? It was {other colour}.",
    "Whose was the {other thing}? It belonged to {friend}. And the {thing}? To {hero}.",
)
WHO_FELT = ("Who was {feeling}? It was {hero} the {animal}.", "How did {hero} feel? {She} was {feeling}.")

PLOTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "lost": (
        *(BEGIN, LIVED, OWNED, GONE, FELT, MEET, FRIEND, ASK, TELL, COMFORT, FOUND, THANK, SMILE, FRIENDS),
        *(WHO_WAS_FRIEND, WHERE_LIVED, WHERE_THING, WHAT_COLOUR),
    ),
    "two things": (
        *(BEGIN, LIVED, OWNED, MEET, FRIEND, OTHER_OWNED, SHOW, RAIN, PACK, FRIENDS),
        *(WHO_WAS_HERO, WHO_WAS_FRIEND, WHERE_LIVED, WHAT_COLOUR, OTHER_COLOUR),
    ),
    "gift": (
        *(BEGIN, LIVED, OWNED, MEET, FRIEND, GIVE, GIVEN, KEEP, FRIENDS),
        *(WHO_WAS_HERO, WHERE_LIVED, WHAT_COLOUR, WHO_OWNED),
    ),
    "moved": (
        *(BEGIN, LIVED, OWNED, MEET, FRIEND, PUT, MOVE, SEEK, SEEN, FRIENDS),
        *(WHERE_LIVED, WHERE_NOW, WHAT_COLOUR),
    ),
    "help": (
        *(BEGIN, LIVED, NEED, MEET, FRIEND, ASK, COMFORT, HELP, SHARE, SMILE, FRIENDS),
        *(WHO_WAS_HERO, WHERE_LIVED, WHO_FELT),
    ),
}

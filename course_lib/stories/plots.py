"""What can happen in a story: the beats of each plot, and for each beat the sentences that can tell it.

Words in braces are facts. `{hero}` and `{friend}` are names; `{animal}` is the hero's kind, `{other animal}` the
friend's; `{a thing}` has its article. `{she}`, `{her}` and `{hers}` stand for the hero, `{other she}` for the friend.
`{first}` and `{second}` are the same two names, in an order that the story sets. An empty sentence leaves a beat out.
"""

BEGIN = (
    "Once there was {an animal} named {hero}.",
    "Long ago there was {an animal} whose name was {hero}.",
    "This is the story of {hero} the {animal}.",
    "In a green valley lived {an animal} named {hero}.",
)
LIVED = (
    "{hero} lived by the {home}.",
    "There was a small house by the {home}, and there lived {hero}.",
    "{She} lived in a little house by the {home}.",
)
OWNED = (
    "{She} had {a colour} {thing}.",
    "What {she} loved most was {hers} {colour} {thing}.",
    "{hero} had made {a colour} {thing} all by {herself}.",
    "For {hers} birthday {she} got {a colour} {thing}.",
)
MEET = (
    "One day {an other animal} came along the road.",
    "One morning {hero} met {an other animal}.",
    "One day {an other animal} walked by and stopped.",
    "One day {an other animal} knocked at the door.",
)
FRIEND = (
    "The {other animal} was named {friend}.",
    '"Hello! I am {friend}," said the {other animal}.',
    '"My name is {friend}," said the {other animal}.',
)
ANSWER = ('"And I am {hero}," said the {animal}.', "")
FELT = ("So {hero} was very {feeling}.", "{She} sat down and felt {feeling}.", "Oh, how {feeling} {she} was!")
ASK = (
    '"Why are you so {feeling}, {hero}?" asked {friend}.',
    '"What makes you so {feeling}?" asked the {other animal}.',
    '"You look {feeling}, {hero}," said the {other animal}.',
)
COMFORT = (
    '"Do not be {feeling}, {hero}," said the {other animal}.',
    '"No one is {feeling} for long," said {friend}.',
    "The {feeling} {animal} looked at {friend} and sighed.",
)
SMILE = ("And {hero} was not {feeling} any more.", "Then {hero} laughed and was not {feeling} any more.")
FRIENDS = (
    "From that day on {hero} and {friend} were friends.",
    "The {animal} and the {other animal} walked back to the {home}.",
    "And {hero} and {friend} sat by the {home} until the stars came out.",
    "That was the best day of all for the {animal} and the {other animal}.",
)
GONE = (
    "But then the {colour} {thing} was gone.",
    "But then {she} could not find {hers} {thing}.",
    "But one night the wind took the {colour} {thing} away.",
)
TELL = ('"My {colour} {thing} is gone," said {hero}.', '"I have lost my {colour} {thing}," said {hero}.')
FOUND = (
    "So they went to the {place}, and there was the {colour} {thing}.",
    "So {hero} and {friend} went to the {place} and found the {colour} {thing}.",
    '"I saw {a colour} {thing} by the {place}!" said {friend}, and they ran there.',
)
FOUND_ALONE = (
    "But the next morning the {colour} {thing} lay by the {place}.",
    "Then {she} went to the {place}, and there was the {colour} {thing}.",
)
THANK = (
    '"Thank you, dear {friend}!" cried {hero}.',
    "By the {place} {hero} took the {colour} {thing} and thanked the {other animal}.",
    "{hero} held the {colour} {thing} and danced with {friend}.",
)
OTHER_OWNED = (
    "{friend} had {an other colour} {other thing}.",
    "In {other hers} bag was {an other colour} {other thing}.",
    "{Other she} was carrying {an other colour} {other thing}.",
)
SHOW = (
    '"I like your {other colour} {other thing}," said {hero}.',
    '"What a fine {colour} {thing} you have!" said {friend}.',
    "They played with the {colour} {thing} and the {other colour} {other thing} all day.",
)
REST = ("In the evening they rested by the {home}.", "When it got dark, they sat by the {home}.", "")
PACK = (
    "In the end {hero} kept the {colour} {thing}, and {friend} kept the {other colour} {other thing}.",
    "Then {hero} put the {colour} {thing} away, and {friend} put the {other colour} {other thing} away.",
    "",
)
FOUND_BOTH = (
    "They went for a walk and found {a colour} {thing}.",
    "In the grass lay {a colour} {thing}.",
    "Together they made {a colour} {thing}.",
)
GIVE = (
    "Then {first} gave {second} the {colour} {thing}.",
    "The next day {first} brought the {colour} {thing} to {second}.",
    '"This {thing} is for you, {second}," said {first}.',
)
GIVEN = (
    '"Thank you, {first}!" said {second}.',
    "{second} jumped for joy and thanked {first}.",
    "So now it was {second} who had the {colour} {thing}.",
)
KEEP = (
    "And {second} kept the {colour} {thing} for ever.",
    "Every night {second} put the {thing} beside the bed.",
    "When {first} came to visit, {second} showed {first} the {colour} {thing}.",
    "",
)
PUT = (
    "{hero} kept the {colour} {thing} by the {place}.",
    "{hero} hid the {colour} {thing} near the {place}.",
    "One night {hero} left the {colour} {thing} by the {place}.",
)
MOVE = (
    "Later {friend} carried the {colour} {thing} to the {new place}.",
    "When {hero} was asleep, it rained, and {friend} took the {thing} to the {new place}.",
    '"It will get wet here," thought {friend}, and moved the {thing} to the {new place}.',
)
SEEK = (
    "{hero} looked for it by the {place}, but it was not there.",
    "In the morning there was nothing by the {place}.",
)
SEEN = (
    '"Look by the {new place}!" said {friend}, and there it was.',
    "At last {hero} found the {colour} {thing} by the {new place}.",
    "{hero} went to the {new place}, and there was the {colour} {thing}.",
)
NEED = (
    "But {she} was {feeling}.",
    "Winter came to the {home}, and {hero} was {feeling}.",
    "One night {hero} felt very {feeling}.",
)
NEED_ALONE = ("One day {she} was {feeling}.", "One night {hero} felt very {feeling}.")
CALM = (
    "But the next morning {hero} was not {feeling} any more.",
    "Then {she} sang a song, and {she} was not {feeling} any more.",
)
STAY = ("And there {she} lived for many years.", "{hero} was happy there.")
SECRET = ("And no one but {hero} knew where it was.", "Only the {animal} knew where it was.")
EVERYWHERE = ("{She} took the {colour} {thing} everywhere.", "No one had a {thing} as fine as that.")
TALK = (
    "{hero} and {friend} talked until the sun went down.",
    "From that day on the {animal} and the {other animal} were friends.",
)
TRUE_FRIENDS = (
    "From that day on {hero} and {friend} were friends.",
    "From that day on the {animal} and the {other animal} were friends.",
)
HELP = (
    '"Come with me to the {place}," said {friend}.',
    "{friend} took {her} to the {place}.",
    'So {friend} made a fire by the {place} and said, "Sit down, {hero}."',
)
SHARE = ("By the {place} they ate an apple cake.", "They sat by the {place} and told each other stories.")
SING = (
    "They sang the old song of the valley, first {hero} and then {friend}.",
    "The {other animal} sang, and the {animal} hummed along.",
)
RACE = (
    '"Let us run to the {place}," said {friend} to {hero}.',
    '"Let us see who gets to the {place} first!" said {hero}.',
    "{hero} and {friend} raced each other to the {place}.",
)
WIN = (
    "{first} ran to the {place}, but {second} stopped to smell the flowers.",
    "{first} was at the {place} long before {second}.",
    "{first} jumped over a log, and {second} fell over it.",
)
PRIZE = (
    '"You won, {first}!" said {second}.',
    "{second} came last and laughed.",
    '"Next time I will win," said {second}.',
)
DANCE = (
    "They danced by the {home} until the moon came up.",
    "{hero} and {friend} sat by the {home} and counted the stars.",
    'In the evening {friend} said, "Sleep well, {hero}," and went home.',
)
GO = ("One morning {hero} went to the {place}.", "One spring day {hero} walked to the {place}.")
THERE = (
    "{She} sat by the {place} and sang until the sun went down.",
    "By the {place} {she} picked some flowers and took them home.",
)
MEET_THERE = ("By the {place} {she} met {an other animal}.", "There by the {place} sat {an other animal}.")
WHO_WAS_HERO = ("Who was {hero}? {She} was {an animal}.", "What was the name of the {animal}? It was {hero}.")
WHO_WAS_FRIEND = (
    "Who was {friend}? {Other she} was {an other animal}.",
    "What was the name of the {other animal}? It was {friend}.",
)
WHERE_LIVED = ("Where did {hero} live? By the {home}.", "Who lived by the {home}? It was {hero}.", "")
WHERE_THING = ("Where was the {colour} {thing}? By the {place}.",)
WHERE_NOW = (
    "Where was the {thing} at first? By the {place}. And in the end? By the {new place}.",
    "Where was the {thing} in the end? By the {new place}.",
)
WHERE_WENT = ("Where did {hero} go? To the {place}.",)
WHERE_MET = ("Where did they meet? By the {place}.",)
WHERE_RUN = ("Where did they run? To the {place}.",)
WHO_GAVE = ("Who gave the {thing} away? It was {first}.", "Who was the {thing} from? It was from {first}.")
WHO_HAD = ("Who had the {thing} in the end? It was {second}.", "Who got the {thing}? It was {second}.")
WHO_WON = ("Who won? It was {first}.", "Who was there first? It was {first}.")
WHO_LOST = ("Who came last? It was {second}.", "And who lost? It was {second}.")
WHAT_COLOUR = ("What colour was the {thing}? It was {colour}.", "")
THING_COLOUR = (
    "What colour was the {thing}? It was {colour}.",
    "And what was the colour of the {thing}? It was {colour}.",
)
OTHER_COLOUR = (
    "What colour was the {other thing}? It was {other colour}.",
    "Whose was the {other thing}? It belonged to {friend}. And the {thing}? To {hero}.",
)
WHO_FELT = (
    "Who was {feeling} at first? It was {hero} the {animal}.",
    "How did {hero} feel at first? {She} was {feeling}.",
)

PLOTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "lost": (
        *(BEGIN, LIVED, OWNED, GONE, FELT, MEET, FRIEND, ASK, TELL, FOUND, THANK, SMILE, FRIENDS),
        *(WHO_WAS_HERO, WHERE_THING, WHAT_COLOUR),
    ),
    "two things": (
        *(BEGIN, LIVED, OWNED, MEET, FRIEND, OTHER_OWNED, SHOW, REST, PACK, TRUE_FRIENDS),
        *(WHO_WAS_HERO, WHO_WAS_FRIEND, OTHER_COLOUR, THING_COLOUR),
    ),
    "gift": (
        *(BEGIN, LIVED, MEET, FRIEND, FOUND_BOTH, GIVE, GIVEN, KEEP, TRUE_FRIENDS),
        *(WHERE_LIVED, WHO_WAS_FRIEND, WHAT_COLOUR, WHO_GAVE, WHO_HAD),
    ),
    "moved": (*(BEGIN, LIVED, OWNED, MEET, FRIEND, PUT, MOVE, SEEK, SEEN, FRIENDS), *(WHAT_COLOUR, WHERE_NOW)),
    "help": (
        *(BEGIN, LIVED, NEED, MEET, FRIEND, ASK, COMFORT, HELP, SHARE, SMILE, FRIENDS),
        *(WHO_WAS_HERO, WHERE_LIVED, WHO_FELT),
    ),
    "race": (
        *(BEGIN, LIVED, MEET, FRIEND, RACE, WIN, PRIZE, FRIENDS),
        *(WHO_WAS_HERO, WHO_WAS_FRIEND, WHERE_RUN, WHO_WON, WHO_LOST),
    ),
    "song": (*(BEGIN, LIVED, MEET, FRIEND, ANSWER, SING, DANCE), *(WHO_WAS_HERO, WHO_WAS_FRIEND, WHERE_LIVED)),
    "one alone": (
        *(BEGIN, LIVED, OWNED, GONE, FELT, FOUND_ALONE, SMILE),
        *(WHO_WAS_HERO, WHERE_LIVED, WHERE_THING, WHAT_COLOUR),
    ),
    # Short ones: what was just said is asked at once.
    "at home": (BEGIN, LIVED, STAY, WHO_WAS_HERO, WHERE_LIVED),
    "a mood": (BEGIN, NEED_ALONE, CALM, WHO_WAS_HERO, WHO_FELT),
    "a thing": (BEGIN, OWNED, EVERYWHERE, WHO_WAS_HERO, WHAT_COLOUR),
    "a hiding place": (BEGIN, OWNED, PUT, SECRET, WHO_WAS_HERO, WHAT_COLOUR, WHERE_THING),
    "a walk": (BEGIN, GO, THERE, WHO_WAS_HERO, WHERE_WENT),
    "a meeting": (BEGIN, GO, MEET_THERE, FRIEND, ANSWER, TALK, WHO_WAS_HERO, WHO_WAS_FRIEND, WHERE_MET),
    "a visit": (BEGIN, MEET, FRIEND, ANSWER, TALK, WHO_WAS_HERO, WHO_WAS_FRIEND),
    "a present": (BEGIN, MEET, FRIEND, FOUND_BOTH, GIVE, GIVEN, TRUE_FRIENDS, WHO_GAVE, WHO_HAD),
}
SENTENCES = tuple(
    dict.fromkeys(sentence for beats in PLOTS.values() for beat in beats for sentence in beat if sentence)
)

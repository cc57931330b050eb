"""The words that a story chooses from."""

GIRLS = ("Anna", "Clara", "Ella", "Emma", "Ida", "Lucy", "Maya", "Mila", "Nora", "Rose", "Ruth", "Zoe")
BOYS = ("Ben", "Finn", "Hugo", "Jack", "Leo", "Max", "Noah", "Oscar", "Otto", "Paul", "Sam", "Tom")
NAMES = GIRLS + BOYS
ANIMALS = ("bear", "cat", "crow", "dog", "duck", "fox", "frog", "goose", "hare", "mouse", "otter", "owl", "pig", "wolf")
THINGS = (
    "ball",
    "bell",
    "boat",
    "book",
    "button",
    "cup",
    "drum",
    "flute",
    "hat",
    "key",
    "kite",
    "lamp",
    "map",
    "scarf",
)
COLOURS = ("black", "blue", "brown", "green", "grey", "pink", "purple", "red", "white", "yellow")
HOMES = ("barn", "castle", "cottage", "farm", "hut", "inn", "mill", "palace", "school", "tower")
LANDMARKS = ("bridge", "cave", "garden", "gate", "hill", "lake", "pond", "river", "rock", "tree", "well", "wood")
FEELINGS = ("gloomy", "glum", "lonely", "miserable", "sad", "unhappy", "upset", "worried")

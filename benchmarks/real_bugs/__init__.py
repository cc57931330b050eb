"""Published attention bugs, each before and after its fix, and what the doctor and other methods say of them."""

"""Landing: the last seconds of an approach, foretold from the seconds before them."""

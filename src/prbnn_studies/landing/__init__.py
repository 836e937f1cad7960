"""Landing: the last seconds of an approach, predicted from the seconds before them."""

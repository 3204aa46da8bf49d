"""Other people's programs against our server, unmodified. Nothing is fetched here: the user names a folder that holds them."""

"""One large model's clients spread over processes of this machine, each with its own device."""

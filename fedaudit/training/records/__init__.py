"""Training under record-level privacy: rPDP-FL, round by round."""

"""Charts of a report as SVG inside its page, written by hand.

Not by matplotlib: importing it alone takes longer than a page may take, and its text is drawn as
outlines that neither a screen reader nor a style sheet reaches.
"""

"""Charts of a report, written by hand as inline SVG.

Matplotlib is not used: importing it alone takes longer than a page may take, and it draws text as
outlines that neither a screen reader nor a style sheet can use.
"""

"""The revisions that bring databases of earlier versions up, and their frozen views."""

"""The database, not machine-learning models: tables, repositories, and all SQL of the project."""

"""The database: tables, repositories, and the only SQL of the project."""

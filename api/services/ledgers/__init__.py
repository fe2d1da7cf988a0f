"""Ledgers of trainings that run elsewhere: opened, reserved from, posted to and shown."""

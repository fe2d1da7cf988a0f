"""Tests of images of federations."""

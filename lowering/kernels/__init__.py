"""Kernel templates, one per file: from tile sizes to IR."""

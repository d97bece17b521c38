"""The dialects and passes of sardonyx for stock `xdsl-opt`, by the `xdsl.universe` entry point."""

"""ONNX files to and from the onnx dialect; the only folder that reads and writes protobuf."""

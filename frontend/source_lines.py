"""Where a node comes from: the scope of modules and the source line that exporters leave in its metadata."""

from __future__ import annotations

import json
import re
from ast import literal_eval

from onnx import NodeProto

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')  # a Python traceback, as torch 2 writes it
_OLD_FRAME = re.compile(r"([^\s(]+\.py)\((\d+)\)")  # torch 1: "model.py(41): forward"


def scope_and_line(proto: NodeProto) -> tuple[str, str]:
    """The node's scope, "encoder.layer.0", and line, "model.py:41"; "" for what the file does not say."""
    if not proto.metadata_props:
        return _scope_of_name(proto.name), _line(_OLD_FRAME.search(proto.doc_string)) if proto.doc_string else ""
    found = {entry.key: entry.value for entry in proto.metadata_props}
    frames = list(_FRAME.finditer(found.get("pkg.torch.onnx.stack_trace", "")))
    scope = _last_scope(found.get("pkg.torch.onnx.name_scopes", ""))
    return scope or _scope_of_name(proto.name), _line(frames[-1] if frames else None)


def _line(match: re.Match[str] | None) -> str:
    return f"{match[1].rpartition('/')[2]}:{match[2]}" if match is not None else ""


def _last_scope(text: str) -> str:
    """The innermost module of "['', 'encoder', 'encoder.attn', 'matmul']": the last entry is the node itself."""
    if not text:
        return ""
    try:
        scopes = json.loads(text) if text.startswith('["') else literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    listed = [str(scope) for scope in scopes] if isinstance(scopes, list) else []
    return next((scope for scope in reversed(listed[:-1]) if scope), "")


def _scope_of_name(name: str) -> str:
    """torch names nodes by path: "/encoder/attn/MatMul"."""
    return name[1:].rpartition("/")[0] if name.startswith("/") else ""

"""What runs in engines and what in torch: `ingot.explain`, `Module.report`."""

from __future__ import annotations

import json
from html import escape

from ..base import atomic
from ..base.notebook import bar


class Report:
    """Which operators of a model run where, and why.

    operators: the number of operators.
    in_engine, in_torch: how many of them run in engines, and in torch.
    whole: True if one engine runs the model.
    segments: the parts that run in engines, in order: {operators, gain_us, cost_us, inputs, outputs}. Times are estimates in microseconds per call.
    nodes: every operator: {name, target, segment or None, reason, origin}. With option autocast also precision and precision_reason.
    missing: operators that no engine has: {target, count, reason, origin, segments_with, in_engine_with}. The last two are the number of segments, and of operators
        in engines, if ingot had this operator.
    document: the whole report as a dict. With option accuracy, document["accuracy"] says what was tried.

    `str(report)` is text for people.
    """

    def __init__(self, document: dict):
        self.document = document

    operators = property(lambda self: self.document["operators"])
    in_engine = property(lambda self: self.document["in_engine"])
    in_torch = property(lambda self: self.operators - self.in_engine)
    whole = property(lambda self: self.document["whole"])
    segments = property(lambda self: self.document["segments"])
    nodes = property(lambda self: self.document["nodes"])
    missing = property(lambda self: self.document["missing"])

    def __str__(self):
        return self.document["text"]

    def __repr__(self):
        return f"<ingot.Report: {self.in_engine} of {self.operators} operators in {len(self.segments)} engine segments>"

    def _repr_html_(self):
        share = self.in_engine / self.operators if self.operators else 1.0
        return f"<p>{bar(share)} {self.in_engine} of {self.operators} operators in {len(self.segments)} engine segments</p><pre>{escape(str(self))}</pre>"

    def to_json(self) -> str:
        return json.dumps(self.document)

    def summary(self) -> str:
        """One line that says what stays in torch."""
        kinds: dict[str, int] = {}
        for node in self.nodes:
            if node["segment"] is None:
                kinds[node["target"]] = kinds.get(node["target"], 0) + 1
        ordered = sorted(kinds.items(), key=lambda item: -item[1])
        text = ", ".join(target if count == 1 else f"{count} x {target}" for target, count in ordered[:4]) + (", ..." if len(ordered) > 4 else "")
        return f"{self.in_torch} of {self.operators} operators run in torch ({text}); the report says why"

    def write(self, path):
        """Prints the report when the path is empty, or writes it there (JSON when the name ends in .json); a function is called with it."""
        if callable(path):
            path(self)
            return
        if not path:
            print(self)
            return
        atomic.write_bytes(path, (self.to_json() if path.endswith(".json") else str(self)).encode())

    # -- decisions after the report was made

    def note(self, name: str, document: dict, text: str):
        """Adds a later finding: `document` for programs, `text` for people."""
        self.document[name] = document
        self.document["text"] += text

    def leave_all_in_torch(self, reason: str):
        self.document["segments"] = []
        self.document["in_engine"], self.document["whole"] = 0, False
        for node in self.nodes:
            if node["segment"] is not None:
                node["segment"], node["reason"] = None, reason

    def all_in_one(self, engine):
        # The engine's one function is the whole model.
        self.document["in_engine"], self.document["whole"] = self.operators, True
        self.document["segments"] = [{"operators": self.operators, "gain_us": 0.0, "cost_us": 0.0, **(self.segments[0] if self.segments else {}),
                                      "inputs": [{"input": name} for name in engine.input_names] + [{"state": s["name"]} for s in engine.states()],
                                      "outputs": engine.output_names, "orders": [[] for _ in engine.output_names]}]  # fmt: skip
        for node in self.nodes:
            node["segment"], node["reason"] = 0, ""

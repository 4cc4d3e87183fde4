"""What a notebook shows of a report and a profile."""

from __future__ import annotations

from html.parser import HTMLParser

import torch

import ingot

PICTURE_OF_SHARE = "width:{:.1%};"


class Checker(HTMLParser):
    """Counts the elements of HTML whose tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.texts = [], {}, []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen[tag] = self.seen.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_report_and_profile_as_html():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).eval()
    compiled = ingot.compile(model, inputs=[torch.randn(2, 8)])
    report = Checker(compiled.report._repr_html_())
    assert PICTURE_OF_SHARE.format(1.0) in compiled.report._repr_html_()
    assert str(compiled.report) in report.texts

    profile = compiled.profile(torch.randn(2, 8), runs=2)
    shown = Checker(profile._repr_html_())
    assert shown.seen["tr"] == 1 + len(list(profile._rows())) and str(profile).splitlines()[0] in shown.texts
    largest = next(profile._rows())
    assert PICTURE_OF_SHARE.format(largest[1]) in profile._repr_html_()


def test_what_stays_in_torch_is_seen():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x @ x)[1] + 1

    compiled = ingot.compile(Model(), inputs=[torch.randn(40, 40)])
    assert compiled.report.in_torch > 0
    share = compiled.report.in_engine / compiled.report.operators
    assert PICTURE_OF_SHARE.format(share) in compiled.report._repr_html_()
    assert "svd" in "".join(Checker(compiled.report._repr_html_()).texts)

import torch
from graphs import exported, fixed, is_unwanted, targets

import ingot
from ingot.capture.fixes import constant_reads


class Places(torch.nn.Module):
    def forward(self, x):
        first = torch.arange(0, x.shape[1])
        places = torch.cat([torch.tensor([0]), first[1::2]])
        return x[:, torch.arange(0, (places[-1] - places[0]).item(), 2)] * places[1].item()


class Given(torch.nn.Module):
    """The number comes from an input; what the other reads is written."""

    def forward(self, x, n):
        places = torch.tensor([4, 2])
        places.add_(n)
        return torch.zeros(n.item()), torch.zeros(places[0].item())


def test_numbers_of_constants_take_their_place():
    traced, x, model = exported(Places(), torch.randn(2, 9)), torch.randn(2, 9), Places()
    assert targets(traced).count("aten.item.default") == 2
    fixed("constant_reads", traced)
    assert "aten.item.default" not in targets(traced) and "aten._assert_scalar.default" not in targets(traced)
    assert traced.program().module()(x).equal(model(x))


def test_a_program_that_arrives_exported_is_one_engine():
    x, model = torch.randn(2, 9), Places()
    program = torch.export.export(model, (x,))
    for arrives in (program, program.run_decompositions()):
        compiled = ingot.compile(arrives, inputs=[x])
        assert compiled.report.whole
        torch.testing.assert_close(compiled(x), model(x))


def test_numbers_of_inputs_and_of_what_is_written_stay():
    traced = exported(Given(), torch.randn(2), torch.tensor(3))
    assert targets(traced).count("aten.item.default") == 2
    assert not constant_reads.wanted(traced)


def test_other_graphs():
    assert is_unwanted("constant_reads")

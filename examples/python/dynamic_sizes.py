"""One plan for every batch and every length: ranges, axes that share one size, and the error outside of a range."""

import torch

import ingot


class Matcher(torch.nn.Module):
    """Scores of questions against passages. Both come as [batch, length, 32]; lengths differ, the batch does not."""

    def __init__(self):
        super().__init__()
        self.question, self.passage = torch.nn.Linear(32, 64), torch.nn.Linear(32, 64)

    def forward(self, questions, passages):
        attention = torch.softmax(self.question(questions) @ self.passage(passages).transpose(1, 2) / 8, dim=-1)
        return (attention @ passages).mean(1)


def main():
    torch.manual_seed(0)
    model = Matcher().eval()

    # "batch" is one size for both inputs: the engine may rely on it, and a call that breaks it is an error.
    compiled = ingot.compile(
        model,
        inputs=[
            ingot.Input(min_shape=(1, 1, 32), opt_shape=(8, 16, 32), max_shape=(32, 64, 32), name="questions", shared_dims={0: "batch"}),
            ingot.Input(min_shape=(1, 1, 32), opt_shape=(8, 128, 32), max_shape=(32, 512, 32), name="passages", shared_dims={0: "batch"}),
        ],
    )
    for batch, question, passage in ((1, 1, 1), (3, 7, 100), (32, 64, 512)):
        questions, passages = torch.randn(batch, question, 32), torch.randn(batch, passage, 32)
        torch.testing.assert_close(compiled(questions, passages), model(questions, passages), atol=1e-5, rtol=1e-4)
        print(f"{batch} questions of {question} against passages of {passage}: {tuple(compiled(questions, passages).shape)}")

    for questions, passages in ((torch.randn(33, 4, 32), torch.randn(33, 4, 32)), (torch.randn(2, 4, 32), torch.randn(3, 4, 32))):
        try:
            compiled(questions, passages)
            raise SystemExit("a size outside of the range was taken")
        except ingot.InputError as problem:
            print(f"refused: {problem.message}")

    # Sizes that come from data: the number of remaining rows depends on their values. Such sizes need no range.
    class Positive(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x[x.sum(1) > 0]) * 2

    picked = ingot.compile(Positive(), inputs=[torch.randn(10, 3)])
    x = torch.randn(10, 3)
    torch.testing.assert_close(picked(x), Positive()(x))
    print(f"{len(picked(x))} of 10 rows have a positive sum")


if __name__ == "__main__":
    main()

#include "kernels/definition.h"
#include "kernels/random_case.h"
#include "kernels/small_matrix/run/small_matrix_args.h"

namespace ingot::kernels {

namespace {

using Kind = SmallMatrixArgs::Kind;

Kind kind_of(ir::Op op) {
  switch (op) {
    case ir::Op::lu: return Kind::lu;
    case ir::Op::solve: return Kind::solve;
    case ir::Op::inverse: return Kind::inverse;
    case ir::Op::determinant: return Kind::determinant;
    case ir::Op::cholesky: return Kind::cholesky;
    case ir::Op::solve_triangular: return Kind::solve_triangular;
    default: return Kind::qr;
  }
}

PlainStep plain(const ir::Graph& g, const ir::Node& node) {
  const ir::Dims& dims = g.type(node.in[0]).dims;
  SmallMatrixArgs args{kind_of(node.op), static_cast<uint8_t>(*dims[dims.size() - 2].constant()), static_cast<uint8_t>(*dims.back().constant())};
  if (args.kind == Kind::solve_triangular) {
    args.upper = node.attributes.boolean("upper");
    args.unit = node.attributes.boolean("unit");
  }
  if (args.kind == Kind::qr) args.complete = node.attributes.boolean("complete");
  return {serialise(args)};
}

// Matrices whose results are exact enough to compare: rows in reverse order, so that pivots move, of matrices with a large diagonal.
ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const auto kind = static_cast<Kind>(c.below(7));
  auto size = [&] { return c.one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 32}); };
  ir::Dims batch = c.dims(c.below(3));
  const int64_t n = size(), m = kind == Kind::lu || kind == Kind::qr ? size() : n;
  auto with = [&](int64_t rows, int64_t columns) {
    ir::Dims dims = batch;
    dims.insert(dims.end(), {rows, columns});
    return dims;
  };
  const ir::Dims dims = with(m, n);
  const auto rank = static_cast<int64_t>(dims.size());
  const ir::Handle x = c.input("x", ir::DType::f32, dims);
  const ir::Handle diagonal = ir::equal(ir::index(c.graph, dims, rank - 2), ir::index(c.graph, dims, rank - 1));
  const ir::Handle a = ir::select(diagonal, 4.0 * static_cast<double>(n) + x, kind == Kind::cholesky ? ir::minimum(x, ir::transpose(x, -1, -2)) : x);
  const ir::Handle moved = ir::flip(a, {rank - 2});
  auto right = [&] { return c.input("b", ir::DType::f32, with(n, c.size())); };
  switch (kind) {
    case Kind::lu: {
      const ir::Lu out = ir::lu(moved);
      c.output("factors", out.factors), c.output("pivots", out.pivots), c.output("info", out.info);
      break;
    }
    case Kind::solve: {
      const auto [y, info] = ir::solve(moved, right());
      c.output("y", y), c.output("info", info);
      break;
    }
    case Kind::inverse: {
      const auto [y, info] = ir::inverse(c.one_in(2) ? moved : ir::transpose(moved, -1, -2));
      c.output("y", y), c.output("info", info);
      break;
    }
    case Kind::determinant: {
      const ir::Determinant out = ir::determinant(moved / (4.0 * static_cast<double>(n)));
      c.output("determinant", out.value), c.output("sign", out.sign), c.output("log", out.log);
      break;
    }
    case Kind::cholesky: {
      const auto [y, info] = ir::cholesky(a);
      c.output("y", y), c.output("info", info);
      break;
    }
    case Kind::solve_triangular: c.output("y", ir::solve_triangular(a, right(), c.one_in(2), c.one_in(4))); break;
    default: {
      const auto [q, r] = ir::qr(moved, c.one_in(2));
      c.output("q", q), c.output("r", r);
    }
  }
  return c.take();
}

}  // namespace

extern const Definition small_matrix_definition;
const Definition small_matrix_definition{"small_matrix",
                                         {{Role::input}, {Role::input, any}, {Role::output, any}},
                                         {ir::Op::lu, ir::Op::solve, ir::Op::inverse, ir::Op::determinant, ir::Op::cholesky, ir::Op::solve_triangular, ir::Op::qr},
                                         plain,
                                         nullptr,
                                         random_case};

}  // namespace ingot::kernels

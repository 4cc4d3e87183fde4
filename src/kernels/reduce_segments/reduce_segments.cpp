#include "kernels/definition.h"
#include "kernels/random_case.h"
#include "kernels/reduce_segments/run/reduce_segments_args.h"

namespace ingot::kernels {

namespace {

PlainStep plain(const ir::Graph&, const ir::Node& node) {
  const ir::Attributes& a = node.attributes;
  return {serialise(ReduceSegmentsArgs{kind_of_segments(a.string("kind")), a.boolean("weighted"), a.boolean("based")})};
}

// Scatters that are large enough for this kernel, of rows as they are or gathered, alone or times a weight. Indices are 0, 1 or 2.
ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const ir::DType type = c.one_of({ir::DType::f32, ir::DType::f16});
  const int64_t rows = 4096 + c.below(300), places = 3 + c.below(9);
  const ir::Handle index = c.input("index", ir::DType::i64, {rows});
  const char* kind = type == ir::DType::f32 ? c.one_of({"add", "min", "max"}) : c.one_of({"min", "max"});  // a half is not exact enough for a sum of so many
  for (const char* name : {"y", "z"}) {  // both by one order
    const ir::Dim width = c.one_of<int64_t>({32, 33, 48});
    const bool is_y = name == std::string("y");
    const ir::Handle base = c.input(name, type, {places, width});
    ir::Handle x = c.input(is_y ? "of y" : "of z", type, {rows, width});
    if (c.one_in(2)) {
      x = ir::gather(x, {0}, {c.input(is_y ? "rows of y" : "rows of z", ir::DType::i64, {rows})}, 0, false);
      if (c.one_in(2)) x = x * c.input(is_y ? "weights of y" : "weights of z", type, {rows, c.one_of<int64_t>({1, width.value()})});
    }
    c.output(name == std::string("y") ? "new y" : "new z", ir::scatter(base, {0}, {index}, 0, c.one_in(2), x, kind));
  }
  return c.take();
}

}  // namespace

extern const Definition reduce_segments_definition;
const Definition reduce_segments_definition{
    "reduce_segments", {{Role::input}, {Role::index}, {Role::index}, {Role::input, any}, {Role::output}}, {ir::Op::reduce_segments}, plain, nullptr, random_case};

}  // namespace ingot::kernels

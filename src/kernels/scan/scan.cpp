#include "kernels/definition.h"
#include "kernels/random_case.h"
#include "kernels/scan/run/scan_args.h"

namespace ingot::kernels {

namespace {

PlainStep plain(const ir::Graph&, const ir::Node& node) {
  using Kind = ScanArgs::Kind;
  const std::string& kind = node.attributes.string("kind");
  const Kind k = kind == "sum" ? Kind::sum : kind == "prod" ? Kind::prod : kind == "max" ? Kind::max : kind == "min" ? Kind::min : Kind::logsumexp;
  return {serialise(ScanArgs{k, static_cast<uint8_t>(node.attributes.integer("axis"))})};
}

ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const int64_t rank = 1 + c.below(4);
  const ir::DType type = c.one_of({ir::DType::f32, ir::DType::f16, ir::DType::i64});
  const bool number = ir::is_float(type);
  const char* kind = number ? c.one_of({"sum", "prod", "max", "min", "logsumexp"}) : c.one_of({"sum", "max", "min"});
  c.output("y", ir::scan(kind, c.input("x", type, c.dims(rank)), c.below(rank)));
  return c.take();
}

}  // namespace

extern const Definition scan_definition;
const Definition scan_definition{"scan", {{Role::input}, {Role::output}}, {ir::Op::scan}, plain, nullptr, random_case};

}  // namespace ingot::kernels

#include "compile/passes/passes.h"

namespace ingot::compile {

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
#define PASS(name, purpose) {{#name, purpose}, name},
#define NEEDED(name, purpose) {{#name, purpose, true}, name},
#include "compile/passes/passes.def"
#undef PASS
#undef NEEDED
  };
  return list;
}

}  // namespace ingot::compile

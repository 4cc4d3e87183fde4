#include "backend/compiler.h"

namespace ingot::backend {

#define X(name) \
  namespace name { \
  extern const Compiler compiler; \
  }
#include "backend/run/backends.def"
#undef X

const Compiler& compiler_for(const Target& target) {
  switch (target.kind) {
#define X(name) \
  case Target::Kind::name: return name::compiler;
#include "backend/run/backends.def"
#undef X
  }
  __builtin_unreachable();
}

}  // namespace ingot::backend

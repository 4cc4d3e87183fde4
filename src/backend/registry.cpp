// The backends: one line each.
#include "backend/offer.h"

namespace ingot::backend {

#define INGOT_BACKENDS(X) X(cpu) X(cuda)
#define X(name) \
  namespace name { \
  extern const Compiler compiler; \
  }
INGOT_BACKENDS(X)
#undef X

const Compiler& compiler_for(const Target& target) {
  switch (target.kind) {
#define X(name) \
  case Target::Kind::name: return name::compiler;
    INGOT_BACKENDS(X)
#undef X
  }
  __builtin_unreachable();
}

}  // namespace ingot::backend

// The reference's offers; each kernel's are in its folder.
#pragma once
#include "backend/offer.h"
#include "base/fields.h"

namespace ingot::backend::reference {

// Each adds its kernel's offers if the site is of its kind.
#define X(name) void name##_offers(const Site&, Offers&);
#include "backend/reference/run/kernels.def"
#undef X

// Appends the body to a step's constants, and the body's sizes to the step's sizes.
void write_body(const FusedBody&, FieldWriter& constants, std::vector<ir::Dim>& sizes);

}  // namespace ingot::backend::reference

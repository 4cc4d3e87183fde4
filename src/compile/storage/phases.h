// The parts of plan_storage, in order.
#pragma once
#include "compile/storage/storage.h"

namespace ingot::compile {

void decide(StoragePlan&);  // stored, roots
void place(StoragePlan&);   // buffers, bindings, places

}  // namespace ingot::compile

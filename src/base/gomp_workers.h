// torch's own threads. Internal to base.
#pragma once
#include <memory>

#include "base/lost_cores.h"
#include "base/parallel.h"

namespace ingot {

// torch's libgomp when it is loaded in this process, else null. 0 threads = torch's number, at most what the process may use. What its sections lose to other programs is added to `lost`.
std::unique_ptr<Workers> find_gomp_workers(int threads, LostCores& lost);

}  // namespace ingot

#include "runtime/copy_stream.h"

#include "base/error.h"

namespace ingot::runtime {

void CopyStream::note_end(backend::Stream& stream) {
  if (end_ == nullptr) {
    end_ = stream.new_point();
  } else {
    stream_->come_after(*end_);  // the run before may be in another stream of the caller, as a recording with copies of its own
  }
  stream.set(*end_);
}

void CopyStream::wait() {
  if (end_ == nullptr) return;
  stream_->come_after(*end_);
  stream_->wait();
}

void CopyStream::Loading::begin() {
  if (copy_stream_.free_ == nullptr) copy_stream_.free_ = stream_.new_point();
  while (copy_stream_.arrived_.size() < loads_.loads.size()) copy_stream_.arrived_.push_back(stream_.new_point());
  start(Streaming::none);
}

// After an error there may be copies that no step waits for. Later work in the session's stream must still wait for them.
CopyStream::Loading::~Loading() {
  if (!ahead_) return;
  try {
    copy_stream_.stream_->set(*copy_stream_.free_);
    stream_.come_after(*copy_stream_.free_);
  } catch (const Error&) {
    // If the driver refuses this too, it runs nothing any more.
  }
}

// Starts the copies that wait for step `after`.
void CopyStream::Loading::start(uint32_t after) {
  if (started_ == loads_.loads.size() || loads_.loads[started_].after != after) return;
  stream_.set(*copy_stream_.free_);
  copy_stream_.stream_->come_after(*copy_stream_.free_);
  ahead_ = true;
  for (; started_ < loads_.loads.size() && loads_.loads[started_].after == after; ++started_) {
    for (const Streaming::Copy& c : loads_.loads[started_].copies) copy_stream_.stream_->copy(ring_ + c.offset, c.from, c.bytes);
    copy_stream_.stream_->set(*copy_stream_.arrived_[started_]);
  }
}

void CopyStream::Loading::before(uint32_t step) {
  for (; met_ < started_ && loads_.loads[met_].step == step; ++met_) stream_.come_after(*copy_stream_.arrived_[met_]);
  if (met_ == started_) ahead_ = false;
}

}  // namespace ingot::runtime

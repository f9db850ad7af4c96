// One document from an HTTP server: a scrape.
#pragma once

#include <string>

#include "ullage/base/result.h"

namespace ullage::cli {

// The body of `http://host[:port]/path`. Waits 5 seconds at most for each of connecting, sending and receiving.
// kUnsupported for https; kIo when it cannot be had, or is no 200; kTooLarge over 64 MiB.
Result<std::string> http_get(const std::string& url);

}  // namespace ullage::cli

// Memory as a bar of characters.
#pragma once

#include <string>
#include <vector>

#include "ullage/base/units.h"

namespace ullage::api {

struct BarPart {
  const char* name;
  Bytes bytes;
  const char* unicode;  // one character
  char ascii;
};

// `width` cells, each part's share of them; what is there at all has one cell at least. Parts of 0 or fewer bytes have
// none.
std::string budget_bar(const std::vector<BarPart>& parts, int width, bool has_unicode);

}  // namespace ullage::api

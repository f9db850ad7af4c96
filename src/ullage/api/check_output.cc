// A check's answer as JSON and as text.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/check.h"
#include "ullage/api/logged_facts.h"
#include "ullage/api/text_table.h"
#include "ullage/base/json.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

const char* unit_name(observe::TermUnit unit) {
  switch (unit) {
    case observe::TermUnit::kBytes:
      return "bytes";
    case observe::TermUnit::kTokens:
      return "tokens";
    case observe::TermUnit::kBlocks:
      return "blocks";
    case observe::TermUnit::kRequests:
      return "requests";
  }
  return "";
}

std::string quantity(observe::TermUnit unit, double value) {
  if (!(std::abs(value) < 9e18)) return fmt::format("{:.3g}", value);
  if (unit == observe::TermUnit::kBytes) return format_bytes(Bytes(static_cast<int64_t>(value)));
  if (unit == observe::TermUnit::kRequests) return fmt::format("{:.2f}x", value);
  return format_thousands(static_cast<int64_t>(value));
}

std::string difference(const observe::TermComparison& term) {
  if (term.logged == 0) return "";
  return fmt::format("{:+.2f} %", (term.predicted / term.logged - 1) * 100);
}

}  // namespace

std::string check_json(const CheckAnswer& answer, int indent) {
  Json json = {{"schema_version", kPlanSchemaVersion}, {"kind", "check"}};
  if (answer.startup) json["startup"] = logged_facts_json(*answer.startup);
  if (answer.comparison) {
    Json terms = Json::array();
    for (const observe::TermComparison& term : answer.comparison->terms) {
      terms.push_back({{"name", term.name},
                       {"unit", unit_name(term.unit)},
                       {"predicted", term.predicted},
                       {"logged", term.logged},
                       {"tolerance", term.tolerance},
                       {"tier", plan::tier_name(term.tier)},
                       {"line", term.line},
                       {"is_off", term.is_off},
                       {"cause", term.cause}});
    }
    json["comparison"] = {{"sentence", answer.comparison->sentence}, {"terms", std::move(terms)}};
  }
  if (answer.diagnosis) {
    Json findings = Json::array();
    for (const observe::Finding& finding : answer.diagnosis->findings) {
      findings.push_back({{"binding", observe::binding_name(finding.binding)},
                          {"evidence", finding.evidence},
                          {"meaning", finding.meaning},
                          {"knob", finding.knob},
                          {"gives", finding.gives}});
    }
    json["diagnosis"] = {{"binding", observe::binding_name(answer.diagnosis->binding)},
                         {"findings", std::move(findings)},
                         {"duty", answer.diagnosis->duty},
                         {"caveat", answer.diagnosis->caveat}};
  }
  json["notes"] = answer.notes;
  return dump_json(json, indent);
}

std::string check_text(const CheckAnswer& answer, const TextStyle& style) {
  std::string out;
  if (answer.diagnosis) {
    out += wrap_text(fmt::format("What binds: {}.", observe::binding_name(answer.diagnosis->binding)), style.width, 0);
    for (const observe::Finding& finding : answer.diagnosis->findings) {
      out += wrap_text(finding.evidence, style.width, 4, "  seen:   ");
      out += wrap_text(finding.meaning, style.width, 4, "  means:  ");
      if (!finding.knob.empty()) out += wrap_text(finding.knob, style.width, 4, "  turn:   ");
      if (!finding.gives.empty()) out += wrap_text(finding.gives, style.width, 4, "  gives:  ");
    }
    if (!answer.diagnosis->duty.empty()) out += wrap_text(answer.diagnosis->duty, style.width, 2);
    if (!answer.diagnosis->caveat.empty()) out += wrap_text(answer.diagnosis->caveat, style.width, 2);
  }
  if (answer.comparison) {
    if (!out.empty()) out += "\n";
    out += wrap_text(answer.comparison->sentence, style.width, 0);
    TextTable table({1, 2, 3});
    table.add({"", "predicted", "logged", "", "tier", ""});
    for (const observe::TermComparison& term : answer.comparison->terms) {
      table.add({term.name, quantity(term.unit, term.predicted), quantity(term.unit, term.logged), difference(term),
                 plan::tier_name(term.tier), term.is_off ? "off" : ""});
    }
    out += table.text();
    for (const observe::TermComparison& term : answer.comparison->terms) {
      if (term.is_off && !term.cause.empty()) {
        out += wrap_text(fmt::format("{}: {}", term.name, term.cause), style.width, 2, "! ");
      }
    }
  }
  if (answer.startup && !answer.comparison && !answer.diagnosis) {
    out += "The log says\n";
    TextTable table({1});
    for (const LoggedFact& fact : logged_facts(*answer.startup)) table.add({fact.name, fact.text, fact.note});
    out += table.text();
  }
  for (const std::string& note : answer.notes) out += wrap_text(note, style.width, 2, "  note: ");
  if (answer.asked) {
    for (const std::string& note : answer.asked->notes) out += wrap_text(note, style.width, 2, "  note: ");
  }
  return out;
}

std::string reference_json(const observe::ReferenceReport& report, int indent) {
  Json sets = Json::array();
  for (const observe::SetResult& set : report.sets) {
    Json table = Json::array();
    for (const observe::ErrorRow& row : set.table) {
      table.push_back({{"name", row.name},
                       {"tier", row.tier},
                       {"num_rows", row.num_rows},
                       {"median", row.median},
                       {"p90", row.p90},
                       {"worst", row.worst}});
    }
    sets.push_back({{"name", set.name},
                    {"is_exact", set.is_exact},
                    {"is_missing", set.is_missing},
                    {"passed", set.passed},
                    {"total", set.total},
                    {"misses", set.misses},
                    {"notes", set.notes},
                    {"table", std::move(table)}});
  }
  return dump_json({{"schema_version", kPlanSchemaVersion},
                    {"kind", "reference"},
                    {"has_miss", report.has_miss()},
                    {"sets", std::move(sets)}},
                   indent);
}

}  // namespace ullage::api

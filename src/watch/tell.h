// What the watch tells the system: a record in the journal for each change of an incident, and systemd whether it is well.
#pragma once

#include "report/watch/incidents.h"

#define WATCH_MESSAGE_ID "0f4a7d2c5b9e4f1d8a63c7e2b1905d48" // of the journal's catalog: data/unhang.catalog

struct watch_voice {
	int journal;          // socket; -1: none, so that lines go to standard output
	const char *notify;   // of systemd; NULL: none
	int keeper;           // which tells systemd in its place; -1: nobody does
	int64_t watchdog_ms;  // how often systemd wants to hear; 0: never
	int64_t heard;        // when it last did
	struct text problems; // that were told already
};

void voice_open(struct watch_voice *v, int keeper);
void voice_close(struct watch_voice *v);
/** An incident has changed: @what is opened, changed, explained or closed. */
void voice_incident(struct watch_voice *v, const struct stored *i, const char *what);
/** A line about the watch itself. The same one is told once. */
void voice_problem(struct watch_voice *v, const char *message);
/** The same, each time. */
void voice_warn(struct watch_voice *v, const char *message);
/** What is good to know, each time. */
void voice_note(struct watch_voice *v, const char *message);
/** READY=1, STOPPING=1, ... */
void voice_notify(const struct watch_voice *v, const char *state);
/** Pats the watchdog. Returns how many milliseconds are left until the next time; -1: it never wants to. */
int voice_watchdog(struct watch_voice *v, int64_t now);

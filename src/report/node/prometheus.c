// Metrics of a node. Labels are those of AMD's device-metrics-exporter, so that both can be joined; none has a value that grows without bounds:
// an incident's id is in the log, not in a label.
#include <time.h>

#include "report/node/node.h"

enum { LABEL_MOST = 64 };

static void metrics_label(FILE *out, const char *name, struct str value, const char *between)
{
	fprintf(out, "%s%s=\"", between, name);
	for (size_t n = 0; n < value.n && n < LABEL_MOST; n++) {
		const unsigned char c = (unsigned char)value.p[n];
		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else
			fputc(c < ' ' || c > '~' ? '_' : c, out);
	}
	fputc('"', out);
}

static void metrics_begin(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metrics_number(FILE *out, const struct node_answer *a, const char *name, double value)
{
	fputs(name, out);
	metrics_label(out, "hostname", a->host, "{");
	fprintf(out, "} %.17g\n", value);
}

/** One of several states: 1 for the one that is so, 0 for the others, so that a rule can wait for each. */
static void metrics_states(FILE *out, const struct node_answer *a)
{
	metrics_begin(out, "unhang_node_status", "gauge",
		      "1 for the status that the node has: healthy, degraded, unknown or failed.");
	for (size_t n = 0; node_statuses[n]; n++) {
		fputs("unhang_node_status", out);
		metrics_label(out, "hostname", a->host, "{");
		metrics_label(out, "status", str_z(node_statuses[n]), ",");
		fprintf(out, "} %d\n", n == (size_t)a->status);
	}
}

static void metrics_gpu_labels(FILE *out, const struct node_answer *a, const struct node_gpu *g, size_t number)
{
	char room[24];
	snprintf(room, sizeof(room), "%zu", number);
	metrics_label(out, "gpu_id", str_z(room), "{");
	metrics_label(out, "serial_number", g->serial, ",");
	metrics_label(out, "hostname", a->host, ",");
	metrics_label(out, "gpu_compute_partition_type", g->partition, ",");
	metrics_label(out, "pcie_bus_id", g->pci, ",");
}

static void metrics_gpus(FILE *out, const struct node_answer *a)
{
	metrics_begin(out, "unhang_gpu_fit", "gauge",
		      "Whether the next job may run on this GPU: 1 yes, 0 no. A GPU of which nobody knows has no sample.");
	for (size_t n = 0; n < a->ngpus; n++) {
		if (!a->gpus[n].known)
			continue;
		fputs("unhang_gpu_fit", out);
		metrics_gpu_labels(out, a, &a->gpus[n], n);
		fprintf(out, "} %d\n", a->gpus[n].fit);
	}
}

/** Open findings by what they are: a class is one of some dozens, a fault one of four. */
static void metrics_findings(FILE *out, const struct node_answer *a)
{
	metrics_begin(out, "unhang_findings", "gauge",
		      "What speaks against the next job, or should be known: how many there are now.");
	for (size_t n = 0; n < a->findings.len; n++) {
		const struct node_finding *f = &a->findings.data[n];
		unsigned count = 0, before = 0;
		for (size_t k = 0; k < a->findings.len; k++) {
			const struct node_finding *o = &a->findings.data[k];
			const bool same = o->status == f->status && o->observed == f->observed && str_eq(o->class, f->class) &&
					  str_eq(o->fault, f->fault) && str_eq(o->action, f->action);
			count += same;
			before += same && k < n;
		}
		if (before)
			continue;
		fputs("unhang_findings", out);
		metrics_label(out, "hostname", a->host, "{");
		metrics_label(out, "status", str_z(node_statuses[f->status]), ",");
		metrics_label(out, "class", f->class, ",");
		metrics_label(out, "fault", f->fault, ",");
		metrics_label(out, "action", f->action, ",");
		metrics_label(out, "observed", f->observed ? S("yes") : S("no"), ",");
		fprintf(out, "} %u\n", count);
	}
}

void report_node_prometheus(const struct node_answer *a, FILE *out)
{
	metrics_states(out, a);
	metrics_gpus(out, a);
	metrics_findings(out, a);
	if (a->watch.written) { // else nobody has counted them
		metrics_begin(out, "unhang_gpus", "gauge", "AMD GPUs that were found.");
		metrics_number(out, a, "unhang_gpus", (double)a->ngpus);
	}
	if (a->expected) {
		metrics_begin(out, "unhang_gpus_expected", "gauge", "AMD GPUs that this node should have.");
		metrics_number(out, a, "unhang_gpus_expected", a->expected);
	}
	metrics_begin(out, "unhang_watch_up", "gauge", "Whether unhang watch runs: its state was valid when this was written.");
	metrics_number(out, a, "unhang_watch_up", a->watch.runs);
	metrics_begin(out, "unhang_watch_state_time_seconds", "gauge",
		      "When unhang watch last wrote its state, in seconds since 1970.");
	metrics_number(out, a, "unhang_watch_state_time_seconds", (double)a->watch.written);
	metrics_begin(out, "unhang_watch_log_read", "gauge", "Whether unhang watch can read the kernel log.");
	metrics_number(out, a, "unhang_watch_log_read", a->watch.runs && !a->watch.unread.n);
	metrics_begin(out, "unhang_watch_log_overruns_total", "counter",
		      "Times that the kernel log ran over before it was read.");
	metrics_number(out, a, "unhang_watch_log_overruns_total", (double)a->watch.lost);
	metrics_begin(out, "unhang_check_time_seconds", "gauge", "When this file was made, in seconds since 1970.");
	metrics_number(out, a, "unhang_check_time_seconds", (double)a->asked);
}

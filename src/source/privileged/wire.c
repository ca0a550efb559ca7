#include "source/privileged/wire.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/message.h"
#include "source/probe_child.h"

enum { BATCHES_MOST = 1 << 12, PROBES_MOST = 1 << 20, WAIT_MOST = 600000 };

static const struct wire_field word_fields[] = {
	WIRE_NUMBER(struct privileged_word, pid, INT32_MAX),
	WIRE_NUMBER(struct privileged_word, address, UINT64_MAX),
	WIRE_NUMBER(struct privileged_word, value, UINT64_MAX),
	WIRE_BOOL(struct privileged_word, read),
};
static const struct wire_kind word_kind = WIRE_KIND('w', struct privileged_word, word_fields);

static const struct wire_field question_fields[] = {
	WIRE_NUMBER(struct privileged_question, task, PRIVILEGED_TASKS - 1),
	WIRE_LIST(struct privileged_question, batches, n, &probe_batch_kind, BATCHES_MOST),
	WIRE_NUMBER(struct privileged_question, milliseconds, WAIT_MOST),
	WIRE_BOOL(struct privileged_question, patient),
	WIRE_NUMBER(struct privileged_question, patience, INT64_MAX),
	WIRE_NUMBER(struct privileged_question, pid, INT32_MAX),
	WIRE_Z(struct privileged_question, path),
	WIRE_NUMBER(struct privileged_question, how, PRIVILEGED_STATUS),
	WIRE_LIST(struct privileged_question, words, nwords, &word_kind, PRIVILEGED_WORDS_MOST),
};
const struct wire_kind privileged_question_kind = WIRE_KIND('q', struct privileged_question, question_fields);

static const struct wire_field answer_fields[] = {
	WIRE_NUMBER(struct privileged_answer, task, PRIVILEGED_TASKS - 1),
	WIRE_NUMBER(struct privileged_answer, error, INT32_MAX),
	WIRE_LIST(struct privileged_answer, batches, n, &probe_answers_kind, BATCHES_MOST),
	WIRE_NUMBER(struct privileged_answer, children, SIZE_MAX),
	WIRE_NUMBER(struct privileged_answer, operations, SIZE_MAX),
	WIRE_NUMBER(struct privileged_answer, patience, INT64_MAX),
	WIRE_TEXT(struct privileged_answer, bytes),
	WIRE_LIST(struct privileged_answer, words, nwords, &word_kind, PRIVILEGED_WORDS_MOST),
	WIRE_NUMBER(struct privileged_answer, watch, INT32_MAX),
};
const struct wire_kind privileged_answer_kind = WIRE_KIND('Q', struct privileged_answer, answer_fields);

bool privileged_take_question(struct str bytes, struct arena *a, struct privileged_question *ret)
{
	size_t total = 0;
	if (!wire_take(bytes, &privileged_question_kind, a, ret) || ret->milliseconds < 0 ||
	    (ret->task != PRIVILEGED_PROBE && ret->n))
		return false;
	for (size_t i = 0; i < ret->n; i++) {
		const struct probe_batch *b = &ret->batches[i];
		// A tree has files that are not on the list of this machine's, and anybody can name any directory as one.
		if (b->root || (total += b->n) > PROBES_MOST)
			return false;
		for (size_t k = 0; k < b->n; k++)
			if (!probe_complete(&b->probes[k]))
				return false;
	}
	return true;
}

bool privileged_fill_in(struct privileged_question *q, const struct privileged_answer *answer, struct probe_count *count)
{
	bool good = answer->n == q->n;
	for (size_t i = 0; i < q->n && good; i++)
		good = probe_batch_answered(&q->batches[i], &answer->batches[i]);
	count->children += answer->children;
	count->operations += answer->operations;
	q->patience = answer->patience;
	return good;
}

// --- the socket ---

bool privileged_send(int socket, const struct wire_kind *kind, const void *message, int fd)
{
	_cleanup_text_ struct text bytes = { 0 };
	wire_put(&bytes, kind, message);
	struct iovec head = { bytes.p, WIRE_HEAD };
	if (message_send(socket, &head, 1, fd) != WIRE_HEAD)
		return false;
	for (struct str left = str_from(text_str(&bytes), WIRE_HEAD); left.n;) {
		const ssize_t n = send(socket, left.p, left.n, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		left = str_from(left, n > 0 ? (size_t)n : 0);
	}
	return true;
}

bool privileged_receive(int socket, const struct wire_kind *kind, uint64_t most, struct text *ret, int *ret_fd)
{
	text_clear(ret);
	struct iovec part = { text_room(ret, WIRE_HEAD), WIRE_HEAD };
	int flags = MSG_WAITALL;
	uint64_t length;
	_cleanup_close_ int fd = -1;
	if (message_receive(socket, &part, 1, &flags, &fd) != WIRE_HEAD || !wire_length(ret->p, kind, &length) || length > most)
		return false;
	for (ret->n = WIRE_HEAD; ret->n < WIRE_HEAD + length;) {
		enum { PIECE = 1 << 20 };
		const uint64_t left = WIRE_HEAD + length - ret->n;
		const size_t want = left < PIECE ? (size_t)left : PIECE;
		const ssize_t n = recv(socket, text_room(ret, want), want, 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		ret->n += n > 0 ? (size_t)n : 0;
	}
	if (ret_fd)
		*ret_fd = take_fd(&fd);
	return true;
}

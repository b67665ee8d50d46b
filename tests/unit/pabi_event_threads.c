/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread reads the events of a shared completion channel and acknowledges them; another makes completion queues
 * on it, lets each raise events and destroys it at once, read or unread. No event may outlive its queue, none of
 * another queue may be lost, and no destroy may hang. A plain program, so that it also runs under the thread sanitizer.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define must(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #cond);                              \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

enum { ROUNDS = 300, EVENTS = 5, GID = 3 };

/* A queue pair connected to itself: a write of no bytes completes on its CQ. */
struct loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct loop steady; /* lives as long as the test; none of its events may be lost */
static atomic_int events_steady, events_other;

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	union ibv_gid gid;

	must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	must(!ibv_query_gid(ctx, 1, GID, &gid));
	a = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = qp->qp_num,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = GID, .hop_limit = 1}}};
	must(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	must(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC));
}

static void loop_make(struct loop *l)
{
	struct ibv_qp_init_attr attr = {
	    .cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .sq_sig_all = 1};

	l->cq = ibv_create_cq(ctx, 16, NULL, channel, 0);
	must(l->cq);
	attr.send_cq = attr.recv_cq = l->cq;
	l->qp = ibv_create_qp(pd, &attr);
	must(l->qp);
	to_rts(l->qp);
}

/* Arms, completes one work request and polls it: one more event. */
static void loop_event(struct loop *l)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_wc wc;
	int n;

	must(!ibv_req_notify_cq(l->cq, 0));
	must(!ibv_post_send(l->qp, &wr, &bad));
	while ((n = ibv_poll_cq(l->cq, 1, &wc)) == 0)
		;
	must(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static void loop_destroy(struct loop *l)
{
	must(!ibv_destroy_qp(l->qp));
	must(!ibv_destroy_cq(l->cq));
}

static void *reader(void *arg)
{
	struct ibv_cq *cq;
	void *user;

	(void)arg;
	while (atomic_load(&events_steady) < ROUNDS) {
		must(!ibv_get_cq_event(channel, &cq, &user));
		atomic_fetch_add(cq == steady.cq ? &events_steady : &events_other, 1);
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	pthread_t thread;

	must(list && list[0]);
	ctx = ibv_open_device(list[0]);
	must(ctx);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	must(pd && channel);
	loop_make(&steady);
	must(!pthread_create(&thread, NULL, reader, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		struct loop l;

		loop_make(&l);
		for (int k = 0; k < EVENTS; k++)
			loop_event(&l);
		loop_event(&steady);
		loop_destroy(&l);
	}
	pthread_join(thread, NULL);
	printf("%d events of the steady queue, %d of those destroyed were read before\n", atomic_load(&events_steady),
	       atomic_load(&events_other));
	loop_destroy(&steady);
	must(!ibv_destroy_comp_channel(channel));
	must(!ibv_dealloc_pd(pd));
	must(!ibv_close_device(ctx));
	return 0;
}

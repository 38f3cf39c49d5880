/*
 * Connects to a server by TLS or with SASL, creates a znode, and prints who may do what with it, a line
 * each:
 *
 *     secure-client HOST:PORT PATH open|auth tls CA,CERTIFICATE,KEY
 *     secure-client HOST:PORT PATH open|auth sasl USER PASSWORD-FILE
 *
 * With "auth" the znode is the client's own, by the identities that its connection has.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sasl/sasl.h>
#include <zookeeper.h>

enum { SESSION_TIMEOUT_MS = 30000, PATIENCE_S = 20, PATH_BYTES_MAX = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int state;

static void watch(zhandle_t *client, int type, int new_state, const char *path, void *context)
{
    (void)client, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT) {
        pthread_mutex_lock(&lock);
        state = new_state;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
}

/* Waits until there is a session, or there cannot be one. */
static int is_connected(void)
{
    struct timespec deadline;
    int waited = 0;

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&lock);
    while (waited == 0 && state != ZOO_CONNECTED_STATE && state != ZOO_AUTH_FAILED_STATE)
        waited = pthread_cond_timedwait(&changed, &lock, &deadline);
    pthread_mutex_unlock(&lock);
    return state == ZOO_CONNECTED_STATE;
}

static zhandle_t *connect_to(const char *server, char **options)
{
    if (strcmp(options[0], "tls") == 0)
        return zookeeper_init_ssl(server, options[1], watch, SESSION_TIMEOUT_MS, NULL, NULL, 0);

    /* The server gives this name to itself, wherever it runs. */
    zoo_sasl_params_t sasl = { "zookeeper", "zk-sasl-md5", "DIGEST-MD5", NULL };
    sasl.callbacks = zoo_sasl_make_basic_callbacks(options[1], NULL, options[2]);
    if (sasl_client_init(NULL) != SASL_OK || sasl.callbacks == NULL)
        return NULL;
    return zookeeper_init_sasl(server, watch, SESSION_TIMEOUT_MS, NULL, NULL, 0, NULL, &sasl);
}

static int use(zhandle_t *client, const char *path, int is_own)
{
    const struct ACL_vector *acl = is_own ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    char created[PATH_BYTES_MAX];
    struct ACL_vector found;
    struct Stat stat;
    int code = zoo_create(client, path, "by C", 4, acl, 0, created, sizeof created);

    if (code == ZOK)
        code = zoo_exists(client, path, 0, &stat);
    if (code == ZOK)
        code = zoo_get_acl(client, path, &found, &stat);
    if (code != ZOK) {
        fprintf(stderr, "%s: %s\n", path, zerror(code));
        return 1;
    }
    for (int i = 0; i < found.count; i++)
        printf("%s:%s\n", found.data[i].id.scheme, found.data[i].id.id);
    deallocate_ACL_vector(&found);
    return 0;
}

int main(int count, char **arguments)
{
    int is_tls = count == 6 && strcmp(arguments[4], "tls") == 0;
    int is_sasl = count == 7 && strcmp(arguments[4], "sasl") == 0;

    if (!is_tls && !is_sasl) {
        fprintf(stderr, "secure-client HOST:PORT PATH open|auth tls CA,CERTIFICATE,KEY\n"
                        "secure-client HOST:PORT PATH open|auth sasl USER PASSWORD-FILE\n");
        return 2;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *client = connect_to(arguments[1], &arguments[4]);
    if (client == NULL) {
        fprintf(stderr, "the client cannot begin: %s\n", strerror(errno));
        return 1;
    }
    int status = 1;
    if (is_connected())
        status = use(client, arguments[2], strcmp(arguments[3], "auth") == 0);
    else
        fprintf(stderr, "not connected: %s\n", state == ZOO_AUTH_FAILED_STATE ? "refused" : "too late");
    zookeeper_close(client);
    return status;
}

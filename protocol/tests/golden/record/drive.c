/*
 * Drives the C client through one topic while proxy.py records it.
 *
 *     drive TOPIC PROXY_PORT SERVER_PORT CONTROL_PORT
 *
 * The topics are listed at the end of this file. A step which does not end as expected stops the
 * recording.
 */
#define THREADED
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { TIMEOUT = 10000, PATIENCE_MS = 15000, KEPT = 256 };

static char proxy[32], server[32];
static int control;

/* ---- The line to the proxy --------------------------------------------------------------- */

static void die(const char *what, int code)
{
    fprintf(stderr, "%s: %d (%s)\n", what, code, zerror(code));
    exit(1);
}

static void say(const char *format, ...)
{
    char line[256], answer[3];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[size++] = '\n';
    if (write(control, line, size) != size || read(control, answer, 3) != 3 || answer[0] != 'o')
        die(line, 0);
}

static int dial(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int end = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(end, (struct sockaddr *)&address, sizeof address) != 0)
        die("connect", 0);
    return end;
}

/* ---- Events, kept until somebody waits for them ------------------------------------------- */

static struct { zhandle_t *client; int type, state; char path[64]; } kept[KEPT];
static int kept_count;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void watcher(zhandle_t *client, int type, int state, const char *path, void *context)
{
    (void)context;
    pthread_mutex_lock(&kept_lock);
    kept[kept_count].client = client;
    kept[kept_count].type = type;
    kept[kept_count].state = state;
    snprintf(kept[kept_count].path, sizeof kept->path, "%s", path ? path : "");
    kept_count = (kept_count + 1) % KEPT;
    pthread_mutex_unlock(&kept_lock);
}

static void second_watcher(zhandle_t *client, int type, int state, const char *path, void *context)
{
    watcher(client, type, state, path, context);
}

static int take(zhandle_t *client, int type, int state, const char *path)
{
    int found = 0;
    pthread_mutex_lock(&kept_lock);
    for (int i = 0; i < KEPT && !found; i++) {
        found = kept[i].client == client && kept[i].type == type
            && (type == ZOO_SESSION_EVENT ? kept[i].state == state
                                          : strcmp(kept[i].path, path) == 0);
        if (found)
            kept[i].client = NULL;
    }
    pthread_mutex_unlock(&kept_lock);
    return found;
}

static void await(zhandle_t *client, int type, int state, const char *path)
{
    for (int waited = 0; !take(client, type, state, path); waited += 10) {
        if (waited > PATIENCE_MS)
            die(path, type);
        usleep(10000);
    }
}

/* ---- Steps -------------------------------------------------------------------------------- */

static zhandle_t *attach(const char *host, int timeout, const clientid_t *id, int flags)
{
    zhandle_t *client = zookeeper_init(host, watcher, timeout, id, NULL, flags);
    if (client == NULL)
        die("zookeeper_init", 0);
    return client;
}

static zhandle_t *open_client(const char *note, int timeout, int flags)
{
    say("note %s", note);
    zhandle_t *client = attach(proxy, timeout, NULL, flags);
    await(client, ZOO_SESSION_EVENT, ZOO_CONNECTED_STATE, "");
    return client;
}

static void expect(const char *what, int expected, int code)
{
    if (code != expected)
        die(what, code);
}

/* One step: a note, a call, and the code it must return. */
#define STEP(note, expected, call) \
    do { \
        if ((expected) == ZOK) \
            say("note %s", note); \
        else \
            say("note %s: %s", note, zerror(expected)); \
        expect(note, expected, call); \
    } while (0)

static int make(zhandle_t *client, const char *path, int mode)
{
    return zoo_create(client, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, mode, NULL, 0);
}

static int look(zhandle_t *client, const char *path)
{
    return zoo_exists(client, path, 0, NULL);
}

/* ---- Topics: sessions --------------------------------------------------------------------- */

static void connect_(void)
{
    zhandle_t *a = open_client("connect, ping, close", 3000, 0);
    usleep(2000000);
    zookeeper_close(a);
    zhandle_t *b = open_client("connect: may be served read-only", TIMEOUT, ZOO_READONLY);
    STEP("a request", ZOK, look(b, "/"));
    zookeeper_close(b);
}

static void reattach(void)
{
    zhandle_t *a = open_client("connect", TIMEOUT, 0);
    STEP("an ephemeral node", ZOK, make(a, "/e", ZOO_EPHEMERAL));
    say("cut");
    await(a, ZOO_SESSION_EVENT, ZOO_CONNECTED_STATE, "");
    STEP("the session goes on", ZOK, look(a, "/e"));
    clientid_t id = *zoo_client_id(a);
    zookeeper_close(a);
    say("note the session has been closed");
    zhandle_t *b = attach(proxy, TIMEOUT, &id, 0);
    await(b, ZOO_SESSION_EVENT, ZOO_EXPIRED_SESSION_STATE, "");
    zookeeper_close(b);
}

/* ---- Topics: nodes ------------------------------------------------------------------------ */

static void create_modes(zhandle_t *c)
{
    int modes[] = {ZOO_PERSISTENT, ZOO_EPHEMERAL, ZOO_PERSISTENT_SEQUENTIAL,
                   ZOO_EPHEMERAL_SEQUENTIAL, ZOO_CONTAINER};
    char path[64], made[64];
    struct Stat stat;
    for (int i = 0; i < 5; i++) {
        say("note create, flags %d, without and with stat", modes[i]);
        snprintf(path, sizeof path, "/%d", modes[i]);
        expect(path, ZOK, zoo_create(c, path, "data", 4, &ZOO_OPEN_ACL_UNSAFE, modes[i], made,
                                     sizeof made));
        snprintf(path, sizeof path, "/2-%d", modes[i]);
        expect(path, ZOK, zoo_create2(c, path, "data", 4, &ZOO_OPEN_ACL_UNSAFE, modes[i], made,
                                      sizeof made, &stat));
    }
    int ttl_modes[] = {ZOO_PERSISTENT_WITH_TTL, ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL};
    for (int i = 0; i < 2; i++) {
        say("note create, flags %d, without and with stat", ttl_modes[i]);
        expect("ttl", ZOK, zoo_create_ttl(c, "/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE, ttl_modes[i],
                                          86400000, made, sizeof made));
        expect("ttl", ZOK, zoo_create2_ttl(c, "/ttl2", "", 0, &ZOO_OPEN_ACL_UNSAFE, ttl_modes[i],
                                           86400000, made, sizeof made, &stat));
    }
}

static void create(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    create_modes(c);
    struct ACL_vector none = {0, NULL};
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    STEP("null data", ZOK, make(c, "/null", 0));
    STEP("empty data", ZOK, zoo_create(c, "/empty", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    STEP("all bytes", ZOK, zoo_create(c, "/all", bytes, 256, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    STEP("a name beyond ASCII", ZOK, make(c, "/b\u00e4ume-\u6a39\u6728", 0));
    STEP("the node exists", ZNODEEXISTS, make(c, "/all", 0));
    STEP("no parent", ZNONODE, make(c, "/none/a", 0));
    STEP("an ephemeral parent", ZNOCHILDRENFOREPHEMERALS, make(c, "/1/a", 0));
    STEP("an empty ACL", ZINVALIDACL, zoo_create(c, "/x", NULL, -1, &none, 0, NULL, 0));
    zookeeper_close(c);
}

static void sync_done(int code, const char *path, const void *data)
{
    (void)data;
    expect(path, ZOK, code);
}

static void read_(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    struct String_vector names;
    struct Stat stat;
    char data[64];
    int size = sizeof data;
    STEP("create the nodes to be read", ZOK, make(c, "/a", 0));
    expect("create", ZOK, zoo_create(c, "/a/b", "data", 4, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    STEP("exists", ZOK, zoo_exists(c, "/a", 0, &stat));
    STEP("exists: no node", ZNONODE, look(c, "/none"));
    STEP("get", ZOK, zoo_get(c, "/a/b", 0, data, &size, &stat));
    STEP("get: null", ZOK, zoo_get(c, "/a", 0, data, &size, &stat));
    size = sizeof data;
    STEP("get: no node", ZNONODE, zoo_get(c, "/none", 0, data, &size, &stat));
    STEP("get_children", ZOK, zoo_get_children(c, "/a", 0, &names));
    deallocate_String_vector(&names);
    STEP("get_children2", ZOK, zoo_get_children2(c, "/a", 0, &names, &stat));
    deallocate_String_vector(&names);
    STEP("get_children2: none", ZOK, zoo_get_children2(c, "/a/b", 0, &names, &stat));
    STEP("get_children: no node", ZNONODE, zoo_get_children(c, "/none", 0, &names));
    say("note sync");
    expect("sync", ZOK, zoo_async(c, "/a", sync_done, NULL));
    STEP("a request, which follows the answer to sync", ZOK, look(c, "/"));
    zookeeper_close(c);
}

static void write_(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    struct Stat stat;
    STEP("create", ZOK, make(c, "/a", 0));
    STEP("set", ZOK, zoo_set2(c, "/a", "one", 3, 0, &stat));
    STEP("set: any version", ZOK, zoo_set(c, "/a", "two", 3, -1));
    STEP("set: null", ZOK, zoo_set(c, "/a", NULL, -1, -1));
    STEP("set: empty", ZOK, zoo_set(c, "/a", "", 0, -1));
    STEP("set: wrong version", ZBADVERSION, zoo_set(c, "/a", "", 0, 99));
    STEP("set: no node", ZNONODE, zoo_set(c, "/none", "", 0, -1));
    STEP("create", ZOK, make(c, "/a/b", 0));
    STEP("delete: not empty", ZNOTEMPTY, zoo_delete(c, "/a", -1));
    STEP("delete: wrong version", ZBADVERSION, zoo_delete(c, "/a/b", 99));
    STEP("delete: no node", ZNONODE, zoo_delete(c, "/none", -1));
    STEP("delete", ZOK, zoo_delete(c, "/a/b", 0));
    STEP("delete: any version", ZOK, zoo_delete(c, "/a", -1));
    zookeeper_close(c);
}

/* ---- Topics: access ----------------------------------------------------------------------- */

static volatile int auth_code;

static void auth_done(int code, const void *data)
{
    (void)data;
    auth_code = code;
}

static int authenticate(zhandle_t *client, const char *scheme, const char *cert)
{
    auth_code = 1;
    expect("add_auth", ZOK,
           zoo_add_auth(client, scheme, cert, (int)strlen(cert), auth_done, NULL));
    for (int waited = 0; auth_code == 1 && waited < PATIENCE_MS; waited += 10)
        usleep(10000);
    return auth_code;
}

static void acl(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    struct ACL entries[] = {
        {ZOO_PERM_ALL, {"auth", ""}}, {ZOO_PERM_READ | ZOO_PERM_WRITE, {"ip", "10.0.0.0/8"}}};
    struct ACL_vector two = {2, entries}, got;
    struct Stat stat;
    STEP("an identity", ZOK, authenticate(c, "digest", "ann:secret"));
    STEP("create", ZOK, make(c, "/a", 0));
    STEP("get_acl", ZOK, zoo_get_acl(c, "/a", &got, &stat));
    STEP("set_acl", ZOK, zoo_set_acl(c, "/a", 0, &two));
    STEP("get_acl", ZOK, zoo_get_acl(c, "/a", &got, &stat));
    STEP("set_acl: any version", ZOK, zoo_set_acl(c, "/a", -1, &ZOO_CREATOR_ALL_ACL));
    STEP("set_acl: wrong version", ZBADVERSION, zoo_set_acl(c, "/a", 99, &two));
    STEP("get_acl: no node", ZNONODE, zoo_get_acl(c, "/none", &got, &stat));
    zhandle_t *stranger = open_client("another client, without the identity", TIMEOUT, 0);
    STEP("set", ZNOAUTH, zoo_set(stranger, "/a", "", 0, -1));
    STEP("set_acl", ZNOAUTH, zoo_set_acl(stranger, "/a", -1, &ZOO_OPEN_ACL_UNSAFE));
    STEP("create", ZNOAUTH, make(stranger, "/a/b", 0));
    STEP("an unknown scheme", ZAUTHFAILED, authenticate(stranger, "none", "x"));
    zookeeper_close(stranger);
    zookeeper_close(c);
}

/* ---- Topics: multi ------------------------------------------------------------------------ */

static void multi(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    char path[4][64];
    struct Stat stat;
    struct ACL_vector *open = &ZOO_OPEN_ACL_UNSAFE;
    zoo_create_op_init(&ops[0], "/a", "data", 4, open, ZOO_PERSISTENT, path[0], 64);
    zoo_create_op_init(&ops[1], "/a/e", NULL, -1, open, ZOO_EPHEMERAL, path[1], 64);
    zoo_create_op_init(&ops[2], "/a/s", "", 0, open, ZOO_PERSISTENT_SEQUENTIAL, path[2], 64);
    zoo_create_op_init(&ops[3], "/a/es", "", 0, open, ZOO_EPHEMERAL_SEQUENTIAL, path[3], 64);
    STEP("every kind of create", ZOK, zoo_multi(c, 4, ops, results));
    zoo_check_op_init(&ops[0], "/a", 0);
    zoo_set_op_init(&ops[1], "/a", "x", 1, 0, &stat);
    zoo_delete_op_init(&ops[2], "/a/e", -1);
    STEP("check, set, delete", ZOK, zoo_multi(c, 3, ops, results));
    STEP("the first fails", ZBADVERSION, zoo_multi(c, 3, ops, results));
    zoo_check_op_init(&ops[0], "/a", -1);
    zoo_delete_op_init(&ops[1], "/a", -1);
    STEP("the second fails", ZNOTEMPTY, zoo_multi(c, 3, ops, results));
    zookeeper_close(c);
}

/* ---- Topics: watches ---------------------------------------------------------------------- */

static void watches(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    struct String_vector names;
    struct Stat stat;
    char data[8];
    int size = sizeof data;
    STEP("exists: no node", ZNONODE, zoo_exists(c, "/a", 1, &stat));
    STEP("create", ZOK, make(c, "/a", 0));
    await(c, ZOO_CREATED_EVENT, 0, "/a");
    STEP("get", ZOK, zoo_get(c, "/a", 1, data, &size, &stat));
    STEP("get_children", ZOK, zoo_get_children(c, "/a", 1, &names));
    STEP("set", ZOK, zoo_set(c, "/a", "", 0, -1));
    await(c, ZOO_CHANGED_EVENT, 0, "/a");
    STEP("create a child", ZOK, make(c, "/a/b", 0));
    await(c, ZOO_CHILD_EVENT, 0, "/a");
    STEP("exists", ZOK, zoo_exists(c, "/a/b", 1, &stat));
    STEP("get_children2", ZOK, zoo_get_children2(c, "/a", 1, &names, &stat));
    STEP("delete the child", ZOK, zoo_delete(c, "/a/b", -1));
    await(c, ZOO_DELETED_EVENT, 0, "/a/b");
    await(c, ZOO_CHILD_EVENT, 0, "/a");
    STEP("watches to be removed", ZOK, zoo_wexists(c, "/a", watcher, NULL, &stat));
    expect("wexists", ZOK, zoo_wexists(c, "/a", second_watcher, NULL, &stat));
    expect("wget_children", ZOK, zoo_wget_children(c, "/a", watcher, NULL, &names));
    STEP("remove one of two", ZOK,
         zoo_remove_watches(c, "/a", ZWATCHTYPE_DATA, second_watcher, NULL, 0));
    STEP("remove all for data", ZOK, zoo_remove_all_watches(c, "/a", ZWATCHTYPE_DATA, 0));
    STEP("remove all", ZOK, zoo_remove_all_watches(c, "/a", ZWATCHTYPE_ANY, 0));
    zookeeper_close(c);
}

static void set_watches(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    const char *paths[] = {"/same", "/data", "/child", "/gone"};
    struct String_vector names;
    char data[8];
    int size = sizeof data;
    say("note watches of every kind");
    for (int i = 0; i < 4; i++) {
        expect("create", ZOK, make(c, paths[i], 0));
        expect("get", ZOK, zoo_get(c, paths[i], 1, data, &size, NULL));
        expect("get_children", ZOK, zoo_get_children(c, paths[i], 1, &names));
    }
    expect("exists", ZNONODE, zoo_exists(c, "/none", 1, NULL));
    expect("exists", ZNONODE, zoo_exists(c, "/new", 1, NULL));

    say("note the connection breaks, and another client changes nodes");
    say("block");
    zhandle_t *other = attach(server, TIMEOUT, NULL, 0);
    await(other, ZOO_SESSION_EVENT, ZOO_CONNECTED_STATE, "");
    expect("set", ZOK, zoo_set(other, "/data", "", 0, -1));
    expect("create", ZOK, make(other, "/child/a", 0));
    expect("delete", ZOK, zoo_delete(other, "/gone", -1));
    expect("create", ZOK, make(other, "/new", 0));
    zookeeper_close(other);
    say("unblock");
    await(c, ZOO_CHANGED_EVENT, 0, "/data");
    await(c, ZOO_CHILD_EVENT, 0, "/child");
    await(c, ZOO_DELETED_EVENT, 0, "/gone");
    await(c, ZOO_CREATED_EVENT, 0, "/new");
    STEP("what is left of the watches is in force", ZOK, zoo_set(c, "/same", "", 0, -1));
    await(c, ZOO_CHANGED_EVENT, 0, "/same");
    zookeeper_close(c);
}

/* ---- Topics: configuration ---------------------------------------------------------------- */

static void config(void)
{
    zhandle_t *c = open_client("connect", TIMEOUT, 0);
    struct Stat stat;
    char data[64];
    int size = sizeof data;
    STEP("getconfig", ZOK, zoo_getconfig(c, 0, data, &size, &stat));
    STEP("getconfig, with a watch", ZOK, zoo_getconfig(c, 1, data, &size, &stat));
    STEP("reconfig", ZRECONFIGDISABLED,
         zoo_reconfig(c, "server.1=zk1:2888:3888;2181", "2", NULL, -1, data, &size, &stat));
    STEP("reconfig: new members", ZRECONFIGDISABLED,
         zoo_reconfig(c, NULL, NULL, "server.1=zk1:2888:3888;2181", 1, data, &size, &stat));
    zookeeper_close(c);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } topics[] = {
        {"connect_", connect_}, {"reattach", reattach}, {"create", create}, {"read_", read_},
        {"write_", write_}, {"acl", acl}, {"multi", multi}, {"watches", watches},
        {"set_watches", set_watches}, {"config", config},
    };
    if (argc != 5)
        die("usage: drive TOPIC PROXY_PORT SERVER_PORT CONTROL_PORT", 0);
    snprintf(proxy, sizeof proxy, "127.0.0.1:%s", argv[2]);
    snprintf(server, sizeof server, "127.0.0.1:%s", argv[3]);
    control = dial(atoi(argv[4]));
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (strcmp(argv[1], topics[i].name) == 0)
            topics[i].run();
    say("end");
    return 0;
}

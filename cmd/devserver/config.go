package main

import (
	"fmt"
	"net/url"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const (
	storeName        = sqlite.PluginName
	clusterName      = "active"
	namespaceRefresh = time.Second
)

// settings differ from the server's defaults where those are meant for a cluster.
var settings = dynamicconfig.StaticClient{
	// The default of 20 polls a second is a floor of 50 ms under every step of a workflow.
	dynamicconfig.TransferProcessorMaxPollRPS.Key():   100,
	dynamicconfig.TimerProcessorMaxPollRPS.Key():      100,
	dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 100,
	dynamicconfig.OutboundProcessorMaxPollRPS.Key():   100,
	// One process has no use for a queue in four parts: a task would find the worker that waits for it, or wait itself in
	// the database, depending on the part it was put into.
	dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
	dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
	// A call that waits for a workflow's end now and then misses it, and then waits this long; the default is 20 s.
	dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,
	dynamicconfig.NamespaceCacheRefreshInterval.Key():     namespaceRefresh,
	// It tells nobody that it runs.
	dynamicconfig.EnableServerVersionCheck.Key(): false,
}

func serverConfig(db string, p ports) *config.Config {
	c := &config.Config{
		Persistence: config.Persistence{
			DefaultStore: storeName, VisibilityStore: storeName, NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{storeName: {SQL: &config.SQL{
				PluginName:   storeName,
				DatabaseName: (&url.URL{Path: db}).EscapedPath(), // the plugin pastes it into a URL
				ConnectAttributes: map[string]string{
					"mode": "rwc",
					// In WAL mode, NORMAL loses nothing when the process dies, only perhaps the last moments when the machine does.
					// Whoever minds those runs a real server and names it in TEMPORAL_ADDRESS.
					"journal_mode": "wal", "synchronous": "1",
					// The pages of the log are written to the file when there are this many, 16 MiB: most have changed again by then.
					"wal_autocheckpoint": "4000",
				},
			}}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: p.frontend()},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: p.frontend()},
		Services:            map[string]config.Service{},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}
	for name, port := range p.services {
		c.Services[name] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
	}
	return c
}

func newServer(c *config.Config, p ports, logger log.Logger) (temporal.Server, error) {
	// The services find each other by this table rather than by gossip. Gossip remembers a server that was killed in the
	// database, and sends work to it for most of a minute after the restart.
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name := range p.services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(p.address(name))
	}
	s, err := temporal.NewServer(
		temporal.WithStaticHosts(hosts),
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(logger),
		temporal.WithDynamicConfigClient(settings),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
	)
	if err != nil {
		return nil, fmt.Errorf("set up server: %w", err)
	}
	return s, nil
}

// openLog sends the server's log to a file, or to stderr.
func openLog(file, level string) (log.Logger, error) {
	switch level {
	case "debug", "info", "warn", "error":
	default:
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn, error", level)
	}
	return log.NewZapLogger(log.BuildZapLogger(log.Config{OutputFile: file, Level: level, Format: "json"})), nil
}

package testenv

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
)

func TestMain(m *testing.M) {
	if os.Getenv("TESTENV_TEST_CHILD") == "1" {
		runServers()
	}
	os.Exit(Main(m))
}

func TestPostgresDatabasesAreApart(t *testing.T) {
	ctx := context.Background()
	a, b := Postgres(t), Postgres(t)
	if a == b {
		t.Fatal("two tests share a database")
	}
	for _, url := range []string{a, b} {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "CREATE EXTENSION pg_trgm; CREATE TABLE only_here (id int)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPostgresDatabaseIsDropped(t *testing.T) {
	ctx := context.Background()
	var url string
	t.Run("inner", func(t *testing.T) { url = Postgres(t) })
	conn, err := pgx.Connect(ctx, url)
	if err == nil {
		conn.Close(ctx)
		t.Fatal("the database of a finished test is still there")
	}
}

func TestTemporalAnswers(t *testing.T) {
	address, ns := Temporal(t)
	c, err := client.Dial(client.Options{HostPort: address, Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CheckHealth(context.Background(), &client.CheckHealthRequest{}); err != nil {
		t.Fatal(err)
	}
	if again, _ := Temporal(t); again != address {
		t.Errorf("a second server was started: %s and %s", address, again)
	}
}

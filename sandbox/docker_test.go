package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeDocker answers like the engine's command line and runs what a container would run on this machine, without
// isolation: it is for the driver's own work. It records each call, an argument a line, and keeps containers as folders.
const fakeDocker = `#!/bin/sh
here=HERE
{ printf 'CALL\n'; printf '%s\n' "$@"; env | grep -c SECRET; } >>"$here/calls"
case $1 in
info) cat "$here/info" ;;
image) [ "$5" = known ] && echo sha256:1 || { echo "No such image" >&2; exit 1; } ;;
ps) cat "$here/ps" ;;
inspect) [ -e "$here/state-$4" ] && cat "$here/state-$4" || { echo "No such object" >&2; exit 1; } ;;
kill) kill -9 -"$(cat "$here/pid-$2")" ;;
rm) rm -f "$here/state-$4" ;;
run)
	name=$3
	for a; do
		case $a in type=bind,src=*) dir=${a#type=bind,src=}; dir=${dir%,dst=/workspace} ;; esac
		last=$a
	done
	case $last in refused) echo "docker: Error response from daemon" >&2; exit 125 ;; created) echo "created 0 false" >"$here/state-$name"; exit 127 ;; esac
	cd "$dir" || exit 1
	setsid sh -c 'echo $$ >"$1/pid-$2"; exec sh -c "$3"' sh "$here" "$name" "$last"
	code=$?
	oom=false; [ "$last" = "exit 137" ] && oom=true
	echo "exited $code $oom" >"$here/state-$name"
	exit $code ;;
esac
`

const rootfulInfo = `{"SecurityOptions":["name=apparmor","name=seccomp,profile=builtin","name=cgroupns"],"Runtimes":{"runc":{},"runsc":{}}}`

func dockerRunner(t *testing.T, info string) (*Runner, string, error) {
	t.Helper()
	here := tempDir(t)
	for name, body := range map[string]string{"docker": strings.ReplaceAll(fakeDocker, "HERE", here), "info": info, "ps": ""} {
		if err := os.WriteFile(filepath.Join(here, name), []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, err := newRunner(Config{Root: filepath.Join(here, "root"), Driver: Docker, Docker: DockerConfig{Program: filepath.Join(here, "docker"), Image: "known"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	r.drv, err = r.driver(t.Context())
	return r, here, err
}

func TestDockerArguments(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVICE", "x")
	r, here, err := dockerRunner(t, rootfulInfo)
	if err != nil {
		t.Fatal(err)
	}
	w := workspace(t, r)
	res := run(t, w, "echo \"$0 hello\"; echo err >&2; echo x >made; exit 3")
	if !strings.HasSuffix(res.Stdout.Text, "hello\n") || res.Stderr.Text != "err\n" || res.ExitCode != 3 || len(res.Changes) != 1 {
		t.Errorf("got %+v", res)
	}
	calls, err := os.ReadFile(filepath.Join(here, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range strings.Split(string(calls), "CALL\n") {
		if c = strings.TrimSuffix(c, "\n"); c != "" {
			lines := strings.Split(c, "\n")
			if lines[len(lines)-1] != "0" {
				t.Errorf("the service's environment was passed on to %v", lines)
			}
			all = append(all, lines[0])
			if lines[0] == "run" {
				wantArguments(t, lines[:len(lines)-1], r)
			}
		}
	}
	if want := []string{"info", "image", "run", "inspect", "rm"}; !slices.Equal(all, want) {
		t.Errorf("calls %v, want %v", all, want)
	}
}

// wantArguments has every line of defence by name: one that goes missing is a finding.
func wantArguments(t *testing.T, args []string, r *Runner) {
	t.Helper()
	line := " " + strings.Join(args, " ") + " "
	user := r.drv.(*docker).user
	for _, want := range []string{"--network none", "--read-only", "--cap-drop ALL", "--security-opt no-new-privileges", "--pids-limit 66", "--memory 536870912",
		"--memory-swap 536870912", "--cpus 1", "--ulimit cpu=20:21", "--ulimit fsize=67108864:67108864", "--ulimit nofile=256:256", "--ulimit core=0:0",
		"--tmpfs /tmp:rw,nosuid,nodev,size=67108864,mode=1777", "--shm-size 67108864", "--pull never", "--runtime runsc", "--ipc private",
		"--user " + user, "--workdir /workspace", "--log-driver none", ",dst=/workspace", "--entrypoint /bin/sh known -c "} {
		if !strings.Contains(line, want) {
			t.Errorf("the arguments lack %q: %s", want, line)
		}
	}
	for _, never := range []string{"--privileged", "--volume", "docker.sock", "--cap-add", "host", "unconfined"} {
		if strings.Contains(strings.ReplaceAll(line, "--hostname", ""), never) {
			t.Errorf("the arguments have %q: %s", never, line)
		}
	}
	if user == "0:0" || strings.HasPrefix(user, "0:") {
		t.Errorf("an engine of root's runs commands as root")
	}
}

// TestDockerFlags gives the arguments to the real command line: it parses them before it looks for an engine.
func TestDockerFlags(t *testing.T) {
	program, err := exec.LookPath("docker")
	if err != nil {
		// Only a convenience of some machines: the arguments themselves are held by the test above.
		t.Skip("no docker command line here to parse the arguments: apt install docker-cli")
	}
	r, _, err := dockerRunner(t, rootfulInfo)
	if err != nil {
		t.Fatal(err)
	}
	args := r.drv.(*docker).arguments("sightline-test", "1-1", job{dir: "/workspace-of-nobody", command: "true", limits: r.limits})
	parse := func(args []string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "DOCKER_HOST=unix:///nowhere/docker.sock"}
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("ran without an engine: %s", out)
		}
		return string(out)
	}
	if out := parse(args); !strings.Contains(out, "/nowhere/docker.sock") {
		t.Errorf("not refused for want of an engine: %s", out)
	}
	if out := parse(slices.Insert(slices.Clone(args), 1, "--no-such-flag")); strings.Contains(out, "/nowhere/docker.sock") {
		t.Errorf("a flag that doesn't exist was parsed: %s", out)
	}
}

func TestDockerEnds(t *testing.T) {
	r, here, err := dockerRunner(t, rootfulInfo)
	if err != nil {
		t.Fatal(err)
	}
	w := workspace(t, r)
	if res, err := w.Exec(t.Context(), "echo a; sleep 100", 500*time.Millisecond); err != nil || res.Ended != EndedWall || res.Stdout.Text != "a\n" || res.Wall > 20*time.Second {
		t.Errorf("got %+v, %v", res, err)
	}
	if res := run(t, w, "exit 137"); res.Ended != EndedMemory {
		t.Errorf("out of memory: %+v", res)
	}
	for _, c := range []string{"refused", "created"} {
		if res, err := w.Exec(t.Context(), c, 0); err == nil {
			t.Errorf("a container that did not start has a result: %+v", res)
		}
	}
	left, err := filepath.Glob(filepath.Join(here, "state-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("containers were left: %v, %v", left, err)
	}
}

func TestDockerSweep(t *testing.T) {
	r, here, err := dockerRunner(t, rootfulInfo)
	if err != nil {
		t.Fatal(err)
	}
	me, err := owner(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "ps"), []byte("sightline-mine "+me+"\nsightline-dead 999999999-1\nsightline-later "+strings.Split(me, "-")[0]+"-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Sweep(t.Context(), Sweep{}); err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(filepath.Join(here, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"sightline-mine": false, "sightline-dead": true, "sightline-later": true} {
		if got := strings.Contains(string(calls), "rm\n--force\n--volumes\n"+name+"\n"); got != want {
			t.Errorf("%s: removed %v, want %v", name, got, want)
		}
	}
}

func TestDockerUnavailable(t *testing.T) {
	for name, c := range map[string]struct{ info, says string }{
		"no engine":   {`{"ServerErrors":["Cannot connect to the Docker daemon"]}`, "Cannot connect"},
		"no answer":   {``, "does not answer"},
		"no seccomp":  {`{"SecurityOptions":[],"Runtimes":{"runc":{}}}`, "seccomp"},
		"userns":      {`{"SecurityOptions":["name=seccomp,profile=builtin","name=userns"],"Runtimes":{"runc":{}}}`, "userns-remap"},
		"no seccomp2": {`{"SecurityOptions":["name=seccompish"],"Runtimes":{}}`, "seccomp"},
	} {
		_, _, err := dockerRunner(t, c.info)
		wantUnavailable(t, name, err, Docker, c.says)
	}
	r, _, err := dockerRunner(t, `{"SecurityOptions":["name=seccomp,profile=builtin","name=rootless"],"Runtimes":{"runc":{}}}`)
	if err != nil || r.drv.(*docker).user != "0:0" || r.drv.(*docker).installed != "" {
		t.Errorf("rootless: %v", err)
	}
	for image, says := range map[string]string{"": "no image", "--privileged": "no image", "unknown": "does not have the image"} {
		r.cfg.Docker.Image = image
		_, err := newDocker(t.Context(), r)
		wantUnavailable(t, image, err, Docker, says)
	}
	r.cfg.Docker = DockerConfig{Image: "known", Program: "no-such-program"}
	_, err = newDocker(t.Context(), r)
	wantUnavailable(t, "no program", err, Docker, "not found")
}

func wantUnavailable(t *testing.T, name string, err error, k Kind, says string) {
	t.Helper()
	var u *Unavailable
	if !errors.As(err, &u) || u.Driver != k || u.Reason == "" || u.Fix == "" || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got %v, want it to say %q", name, err, says)
	}
}

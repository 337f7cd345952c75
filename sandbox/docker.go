package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// DockerConfig says how the docker driver runs commands. Image is required.
type DockerConfig struct {
	Program string  // the command line; "": docker, found on PATH
	Image   string  // must be on the engine already and have /bin/sh and unshare; nothing is pulled
	Runtime string  // "": runsc where the engine has it, else the engine's default
	CPUs    float64 // processors at once; 0: 1
}

// docker runs every command in a container of its own.
type docker struct {
	r         *Runner
	cfg       DockerConfig
	user      string
	installed string // the runtime, "" is the engine's default
	said      []string
}

const dockerWait = 30 * time.Second

func newDocker(ctx context.Context, r *Runner) (driver, error) {
	no := func(reason, fix string, err error) (driver, error) {
		return nil, &Unavailable{Driver: Docker, Reason: reason, Fix: fix, Err: err}
	}
	d := &docker{r: r, cfg: r.cfg.Docker}
	if d.cfg.Program == "" {
		d.cfg.Program = "docker"
	}
	if d.cfg.CPUs == 0 {
		d.cfg.CPUs = 1
	}
	if d.cfg.Image == "" || strings.HasPrefix(d.cfg.Image, "-") {
		return no("no image is configured", "Name an image that has a shell and the tools that commands may use.", nil)
	}
	program, err := exec.LookPath(d.cfg.Program)
	if err != nil {
		return no("the program docker was not found", "Install Docker's command line, or use the bubblewrap driver.", err)
	}
	d.cfg.Program = program
	out, err := d.ask(ctx, "info", "--format", "{{json .}}")
	var info struct {
		SecurityOptions []string
		Runtimes        map[string]json.RawMessage
		ServerErrors    []string
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &info)
	}
	if err == nil && len(info.ServerErrors) > 0 {
		err = errors.New(strings.Join(info.ServerErrors, "; "))
	}
	if err != nil {
		return no("the engine does not answer", "Start the Docker engine and let the service's user reach it.", err)
	}
	has := func(option string) bool {
		return slices.ContainsFunc(info.SecurityOptions, func(s string) bool { return s == option || strings.HasPrefix(s, option+",") })
	}
	d.installed = d.cfg.Runtime
	if _, ok := info.Runtimes["runsc"]; ok && d.installed == "" {
		d.installed = "runsc"
	}
	if _, ok := info.Runtimes[d.installed]; !ok && d.installed != "" {
		return no("the engine has no runtime "+d.installed, "Install it, or configure another one.", nil)
	}
	if d.installed != "runsc" && !has("name=seccomp") {
		return no("the engine has no seccomp filter", "Run an engine with its default seccomp profile, or the runtime runsc.", nil)
	}
	rootless := has("name=rootless")
	switch {
	case has("name=userns") && !rootless:
		return no("the engine maps users (userns-remap), so that the service could not remove what commands write",
			"Run a rootless engine as the service's user instead.", nil)
	case rootless:
		d.user = "0:0" // the container's root is the service's user, without any capability
	case r.uid >= 0:
		d.user = fmt.Sprintf("%d:%d", r.uid, r.gid)
	default:
		d.user = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	}
	if !rootless {
		d.said = append(d.said, "The Docker engine runs as root: a rootless one is safer.")
	}
	if d.installed != "runsc" {
		d.said = append(d.said, "Commands share the host's kernel: the runtime runsc would put one of its own between.")
	}
	d.said = append(d.said, "Disk use is watched while a command runs: a fast writer can pass the quota for a moment, and files that are deleted while open are not seen.")
	if _, err := d.ask(ctx, "image", "inspect", "--format", "{{.Id}}", d.cfg.Image); err != nil {
		return no("the engine does not have the image "+d.cfg.Image, "Pull or build it: the service never does.", err)
	}
	return d, nil
}

// environment is what the command line needs to find its engine.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "DOCKER_") || slices.Contains([]string{"PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK"}, name) {
			env = append(env, kv)
		}
	}
	return env
}

func (d *docker) cli(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.cfg.Program, args...)
	cmd.Env = environment()
	// A Ctrl-C at the service's terminal is the service's to handle.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (d *docker) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dockerWait)
	defer cancel()
	out, err := d.cli(ctx, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("docker %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("docker %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (d *docker) kind() Kind         { return Docker }
func (d *docker) seen(string) string { return Inside }
func (d *docker) notes() []string    { return d.said }

// The labels by which leftovers are found.
const (
	labelRoot  = "sightline.sandbox.root"
	labelOwner = "sightline.sandbox.owner"
)

// arguments is the whole command line of a run. Everything that the image or the engine could set otherwise is said.
func (d *docker) arguments(name, owner string, j job) []string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	l := j.limits
	cpu := int64(l.CPU / time.Second)
	args := []string{"run", "--name", name, "--pull", "never", "--log-driver", "none",
		"--label", labelRoot + "=" + digest(d.r.cfg.Root), "--label", labelOwner + "=" + owner,
		"--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--ipc", "private", "--cgroupns", "private", "--restart", "no", "--no-healthcheck", "--init", "--oom-score-adj", "500",
		"--user", d.user, "--hostname", "sandbox", "--workdir", Inside,
		"--pids-limit", strconv.Itoa(l.Processes + overhead),
		"--memory", n(l.Memory), "--memory-swap", n(l.Memory), // equal: no swap
		"--cpus", strconv.FormatFloat(d.cfg.CPUs, 'f', -1, 64),
		"--ulimit", fmt.Sprintf("cpu=%d:%d", cpu, cpu+1),
		"--ulimit", fmt.Sprintf("fsize=%[1]d:%[1]d", l.File),
		"--ulimit", fmt.Sprintf("nofile=%[1]d:%[1]d", l.Descriptors),
		"--ulimit", "core=0:0",
		"--shm-size", n(l.Scratch),
		"--tmpfs", fmt.Sprintf("/tmp:rw,nosuid,nodev,size=%d,mode=1777", l.Scratch),
		"--mount", "type=bind,src=" + j.dir + ",dst=" + Inside,
		"--env", "HOME=/tmp", "--env", "TMPDIR=/tmp", "--env", "LANG=C.UTF-8", "--env", "USER=sandbox",
	}
	if d.installed != "" {
		args = append(args, "--runtime", d.installed)
	}
	return append(args, "--entrypoint", "/bin/sh", d.cfg.Image, "-c", `if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; fi; exec /bin/sh -c "$1"`, "sh", j.command)
}

func (d *docker) start(ctx context.Context, j job) (process, error) {
	if strings.ContainsAny(j.dir, ",\"\n") {
		return nil, fmt.Errorf("start container: the folder %q can't be written as a mount", j.dir)
	}
	me, err := owner(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("start container: %w", err)
	}
	p := &container{d: d, name: "sightline-" + strings.ToLower(rand.Text()), messages: firstWords{w: j.stderr}, ended: make(chan struct{})}
	// Not ctx: killing the command line would leave the container.
	p.cmd = d.cli(context.WithoutCancel(ctx), d.arguments(p.name, me, j)...)
	p.cmd.Stdout, p.cmd.Stderr = j.stdout, &p.messages
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start container: %w", err)
	}
	go p.follow()
	return p, nil
}

// sweep removes containers whose service process is dead.
func (d *docker) sweep(ctx context.Context) error {
	out, err := d.ask(ctx, "ps", "--all", "--filter", "label="+labelRoot+"="+digest(d.r.cfg.Root), "--format", `{{.Names}} {{.Label "`+labelOwner+`"}}`)
	if err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	var errs []error
	for line := range strings.Lines(out) {
		name, by, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(by, "-")
		pid, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		if now, err := owner(pid); err == nil && now == by {
			continue
		}
		_, err = d.ask(ctx, "rm", "--force", "--volumes", name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

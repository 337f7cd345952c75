package sandbox

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An outside is what commands must not reach, each thing with a way to see whether they did.
type outside struct {
	secret  string // in everything below
	dir     string // a folder that anybody may write in, were it reachable
	file    string // readable by anybody
	tcp     string // ports of listeners
	udp     string
	socket  string // a unix socket's path
	name    string // an abstract socket's name
	victim  *exec.Cmd
	touched atomic.Int32 // connections and datagrams that came
}

func newOutside(t *testing.T, r *Runner) *outside {
	t.Helper()
	o := &outside{secret: rand.Text(), dir: tempDir(t)}
	o.file = filepath.Join(o.dir, "secret")
	o.socket, o.name = filepath.Join(o.dir, "sock"), "sandbox-"+rand.Text()
	if err := os.Chmod(o.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.file, []byte(o.secret), 0o666); err != nil {
		t.Fatal(err)
	}
	if r.uid >= 0 {
		if err := os.Chown(o.file, r.uid, r.gid); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", o.socket}, {"unix", "@" + o.name}} {
		ln, err := net.Listen(l[0], l[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		if l[0] == "tcp" {
			_, o.tcp, _ = net.SplitHostPort(ln.Addr().String())
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				o.touched.Add(1)
				fmt.Fprint(c, o.secret)
				c.Close()
			}
		}()
	}
	if err := os.Chmod(o.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	_, o.udp, _ = net.SplitHostPort(u.LocalAddr().String())
	go func() {
		b := make([]byte, 100)
		for {
			if _, _, err := u.ReadFrom(b); err != nil {
				return
			}
			o.touched.Add(1)
		}
	}()
	// It has the very uid of the commands: only the sandbox stands between them.
	o.victim = exec.Command("/bin/sleep", "1000")
	o.victim.Env = []string{"SECRET=" + o.secret}
	o.victim.SysProcAttr = &syscall.SysProcAttr{Credential: r.credential(), Setsid: true}
	if err := o.victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.victim.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the victim outside is dead: %v", err)
		}
		_ = o.victim.Process.Kill()
		_ = o.victim.Wait()
	})
	return o
}

// harmed says what a command reached, "" is nothing.
func (o *outside) harmed(t *testing.T, res Result) string {
	t.Helper()
	if strings.Contains(res.Stdout.Text+res.Stderr.Text, o.secret) {
		return "a secret was read"
	}
	if strings.Contains(res.Stdout.Text, "ESCAPED") {
		return "it says so: " + res.Stdout.Text
	}
	if o.touched.Load() > 0 {
		return "a listener was reached"
	}
	if body, err := os.ReadFile(o.file); err != nil || string(body) != o.secret {
		return "a file was changed"
	}
	if st, err := os.Stat(o.file); err != nil || st.Mode().Perm()&0o111 != 0 || st.Mode()&os.ModeSetuid != 0 {
		return "a file's mode was changed"
	}
	if list, err := os.ReadDir(o.dir); err != nil || len(list) != 2 {
		return fmt.Sprintf("the folder was changed: %v", list)
	}
	if st, err := statOf(o.victim.Process.Pid); err != nil || st.dead {
		return "a process was ended"
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(o.victim.Process.Pid, unix.RLIMIT_FSIZE, nil, &limit); err == nil && limit.Cur == 4096 {
		return "a process's limit was changed"
	}
	return ""
}

// escapes are commands that print ESCAPED where the outside itself can't tell.
func (o *outside) escapes() map[string]string {
	pid := o.victim.Process.Pid
	f := strings.NewReplacer("FILE", o.file, "DIR", o.dir, "VICTIM", fmt.Sprint(pid), "TCP", o.tcp, "UDP", o.udp, "THESOCKET", o.socket, "THENAME", o.name,
		"SERVICE", fmt.Sprint(os.Getpid())).Replace
	m := map[string]string{
		"dot dot": `cat ../secret ../../secret ../../../secret ../../../../../../../../..FILE /workspace/../..FILE
			echo x >../../../../../../../../..DIR/planted; touch ../../planted && echo ESCAPED; true`,
		"absolute link": `ln -s FILE l && cat l; ln -s / root; cat rootFILE; echo x >rootDIR/planted; echo x >l; true`,
		"hard link":     `ln FILE h && cat h && echo ESCAPED; ln -L /etc/passwd h2 && echo ESCAPED; true`,
		"proc": `cat /proc/*/environ | tr '\0' '\n'; cat /proc/VICTIM/environ /proc/SERVICE/environ
			cat /proc/1/rootFILE /proc/VICTIM/rootFILE /proc/SERVICE/rootFILE /proc/SERVICE/cwd/* /proc/VICTIM/mem
			ls /proc/SERVICE/fd/ && [ -e /proc/SERVICE/exe ] && echo ESCAPED
			echo b >/proc/sysrq-trigger && echo ESCAPED; echo 1 >/proc/sys/vm/drop_caches && echo ESCAPED
			echo x >/proc/sys/kernel/core_pattern && echo ESCAPED; true`,
		"devices": `for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg /dev/kvm /dev/fuse; do head -c 1 $d >/dev/null && echo ESCAPED; done
			mknod disk b 8 0 && echo ESCAPED; mknod mem c 1 1 && echo ESCAPED; mknod null c 1 3 && echo ESCAPED; true`,
		"nested namespaces": `for n in U Ur m n p u i C Urm Urn; do unshare -$n true && echo ESCAPED; done
			bwrap --ro-bind / / true && echo ESCAPED
			perl -e 'print "ESCAPED\n" if syscall(272, 0x10000000)==0; print "ESCAPED\n" if syscall(161, "/tmp")==0; my $p=syscall(56, 0x10000000|17, 0); exit if defined $p && $p==0; print "ESCAPED\n" if $p>0'
			mount -t tmpfs none /workspace && echo ESCAPED; chroot /workspace / && echo ESCAPED; true`,
		"loopback": `exec 9<>/dev/tcp/127.0.0.1/TCP && cat <&9; exec 9<>/dev/tcp/localhost/TCP && cat <&9; echo x >/dev/udp/127.0.0.1/UDP
			perl -MIO::Socket::INET -e '$s=IO::Socket::INET->new("127.0.0.1:TCP") and print <$s>'; true`,
		"link-local and the rest": `for a in 169.254.169.254/80 10.0.0.1/80 192.168.0.1/80 1.1.1.1/443; do timeout 2 bash -c "exec 9<>/dev/tcp/$a" && echo ESCAPED; done
			[ -e /proc/net/route ] && [ "$(wc -l </proc/net/route)" -gt 1 ] && echo ESCAPED; true`,
		"DNS": `timeout 5 getent hosts example.com && echo ESCAPED; timeout 2 bash -c 'echo x >/dev/udp/8.8.8.8/53' && echo ESCAPED; true`,
		"sockets": `perl -MSocket -e 'for my $n ("THESOCKET","\0THENAME") { socket(S,AF_UNIX,SOCK_STREAM,0) or next; connect(S,pack_sockaddr_un($n)) and print <S> }
			socket(V,40,SOCK_STREAM,0) and print "ESCAPED vsock\n"; socket(P,17,SOCK_RAW,0) and print "ESCAPED packet\n"; socket(A,38,SOCK_SEQPACKET,0) and print "ESCAPED alg\n"'; true`,
		"signals": `kill -9 VICTIM; kill -9 SERVICE; kill -9 1; kill -STOP -1; perl -e 'kill 9, VICTIM; kill 9, -VICTIM'; perl -e 'kill 9, -1'; true`,
		"others' processes": `perl -e 'print "ESCAPED ptrace\n" if syscall(101,16,VICTIM,0,0)==0; print "ESCAPED vm\n" if syscall(310,VICTIM,0,0,0,0,0)==0;
			print "ESCAPED prio\n" if setpriority(0,VICTIM,5)'
			prlimit --pid VICTIM --fsize=4096:4096; renice -n 5 -p VICTIM && echo ESCAPED; true`,
		"environment":           `env; set; cat /proc/self/environ /proc/$PPID/environ | tr '\0' '\n'; true`,
		"inherited descriptors": `for i in $(seq 3 40); do { cat <&$i; } 2>/dev/null; done; for f in /proc/$$/fd/*; do case $f in */[012]) ;; *) cat $f </dev/null;; esac; done; true`,
		"setuid": `cp /bin/sh s; chmod 4755 s; chmod u+s s; chmod 2755 s; chmod u+s,g+s FILE; chmod +x FILE
			perl -e 'chmod 04755,"s"; sysopen(F,"new",0101,04755); mkdir "dir",02777; syscall(90,"s",04755); syscall(268,-100,"s",04755); syscall(452,-100,"s",04755,0); syscall(85,"made",04755)'
			find . -perm /6000 | grep -q . && echo ESCAPED
			s=$(cat /proc/self/status) && case "$s" in *NoNewPrivs:?1*) ;; *) echo ESCAPED;; esac; true`,
		"system files": `for f in /x /dev/x /usr/x /usr/bin/x /etc/x /proc/x /run/x; do echo x >$f && echo "ESCAPED $f"; done
			echo x >/etc/passwd && echo ESCAPED; cat /etc/shadow && echo ESCAPED; ls /root /home && echo ESCAPED; true`,
		"outliving": `setsid sleep 7777 & nohup sleep 7777 >/dev/null 2>&1 & (sleep 7777 &) ; perl -e 'fork and exit; syscall(112); fork and exit; exec "sleep","7777"'; true`,
	}
	for k, v := range m {
		m[k] = f(v)
	}
	return m
}

func TestEscapes(t *testing.T) {
	needProgram(t, "perl", "apt install perl-base")
	for _, kind := range []Kind{Bubblewrap, Landlock} {
		t.Run(string(kind), func(t *testing.T) {
			r := proved(t, kind)
			o := newOutside(t, r)
			t.Setenv("SECRET_OF_THE_SERVICE", o.secret)
			// One that whoever started the service forgot to close.
			leak, err := unix.Open(o.file, unix.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(leak)
			for name, command := range o.escapes() {
				t.Run(name, func(t *testing.T) {
					w := workspace(t, r)
					res := run(t, w, command)
					if harm := o.harmed(t, res); harm != "" {
						t.Errorf("%s\nstdout: %.2000s\nstderr: %.2000s", harm, res.Stdout.Text, res.Stderr.Text)
					}
					nothingRuns(t, "7777")
					noSetuid(t, r, w)
				})
			}
		})
	}
}

// TestOutsideIsInReach runs the same attempts without a sandbox: one that fails there, too, proves nothing.
func TestOutsideIsInReach(t *testing.T) {
	needProgram(t, "perl", "apt install perl-base")
	r := proved(t, Bubblewrap)
	for _, name := range []string{"dot dot", "absolute link", "hard link", "proc", "loopback", "sockets", "signals", "others' processes", "setuid", "environment"} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, r)
			dir := filepath.Join(o.dir, "w")
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			command := o.escapes()[name]
			if name == "signals" { // not those that would reach the test itself
				command = fmt.Sprintf("kill -9 %d", o.victim.Process.Pid)
			}
			cmd := exec.Command("/bin/bash", "-c", command)
			cmd.Dir = dir
			cmd.Env = []string{"SECRET=" + o.secret, "PATH=" + os.Getenv("PATH")}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.credential(), Setsid: true}
			out, _ := cmd.CombinedOutput()
			if name == "signals" {
				if err := o.victim.Wait(); err == nil {
					t.Error("the victim was not reached")
				}
				o.victim = exec.Command("/bin/sleep", "1000")
				if err := o.victim.Start(); err != nil {
					t.Fatal(err)
				}
				return
			}
			// A link in the protected folder is left by the attempt: the folder's own change does not count.
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if o.harmed(t, Result{Stdout: Output{Text: string(out)}}) == "" {
				t.Errorf("without a sandbox nothing was reached, so the attempt proves nothing:\n%s", out)
			}
		})
	}
}

// nothingRuns looks for a process whose command line has the word; commands are dead when Exec returns.
func nothingRuns(t *testing.T, word string) {
	t.Helper()
	for _, s := range processes() {
		body, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid))
		if err == nil && !s.dead && strings.Contains(string(body), "\x00"+word+"\x00") {
			t.Errorf("process %d outlived its command: %q", s.pid, body)
		}
	}
}

func noSetuid(t *testing.T, r *Runner, w *Workspace) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(r.cfg.Root, w.id.folder(), "files"), func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // one that its owner closed
		}
		if st, err := d.Info(); err == nil && !d.IsDir() && st.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice) != 0 {
			t.Errorf("%s has mode %v", p, st.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLinksLeftBehind imports and reads through what a command prepared.
func TestLinksLeftBehind(t *testing.T) {
	r := proved(t, Bubblewrap)
	w := workspace(t, r)
	o := newOutside(t, r)
	run(t, w, fmt.Sprintf(`ln -s %s l; ln -s %s d; ln -s . loop; ln -s real inner; echo a >real; ln real hard; mkfifo fifo; mkdir sub; ln -s ../.. sub/up; ln -s %s/planted dangling
		perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); bind(S,pack_sockaddr_un("sock"))'`, o.file, o.dir, o.dir))
	for name, kind := range map[string]error{
		"l": ErrLink, "d/secret": ErrLink, "loop/real": ErrLink, "inner": ErrLink, "hard": ErrLink, "real": ErrLink, "fifo": ErrKind, "sock": ErrKind,
		"sub/up/id": ErrLink, "sub": ErrKind, "dangling": ErrLink, "real/x": ErrKind,
	} {
		_, err := w.View(t.Context(), Inside+"/"+name, 0)
		wantRefused(t, err, kind)
		_, err = w.Import(t.Context(), Inside+"/"+name, strings.NewReader("planted"), 0)
		wantRefused(t, err, kind)
	}
	if harm := o.harmed(t, Result{}); harm != "" {
		t.Error(harm)
	}
	if err := w.Delete(t.Context(), Inside+"/l"); err != nil {
		t.Errorf("a link itself can be deleted: %v", err)
	}
	wantRefused(t, w.Delete(t.Context(), Inside+"/d/secret"), ErrLink)
	if harm := o.harmed(t, Result{}); harm != "" {
		t.Error(harm)
	}
}

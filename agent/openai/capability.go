package openai

import (
	"sync"
	"time"

	"sightline/agent"
)

// knowledge is what is known of one (base URL, API, model). Its zero value knows nothing.
type knowledge struct {
	mu       sync.Mutex
	metadata agent.Capability // Source "" until a Probe found something
	observed agent.Capability // Source "" until the model refused a picture
	server   server
	dropped  map[string]bool // optional parameters that the server refused
}

// capability picks the best source. A refusal that came after the metadata refutes it; see refused.
func (k *knowledge) capability(word agent.Vision, p provider, model string, since time.Time) agent.Capability {
	if word != agent.VisionUnknown {
		return agent.Capability{Vision: word, Source: "operator", Detail: "configured", At: since}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.metadata.Vision != agent.VisionUnknown {
		return k.metadata
	}
	if k.observed.Vision != agent.VisionUnknown {
		return k.observed
	}
	return tabled(p, model)
}

// found stores what a Probe found. Nothing found leaves what was known before.
func (k *knowledge) found(f finding, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.server != serverUnknown {
		k.server = f.server
	}
	if f.vision != agent.VisionUnknown {
		k.metadata = agent.Capability{Vision: f.vision, Source: "metadata", Detail: f.detail, At: at}
	}
}

// refused stores that the model named the modality in a refusal. Metadata that promised otherwise is older than the
// refusal and was wrong: without dropping it, every turn would walk into the same refusal.
func (k *knowledge) refused(status string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observed = agent.Capability{Vision: agent.VisionNo, Source: "observed", Detail: "the model refused a picture (" + status + ")", At: at}
	k.metadata = agent.Capability{}
}

func (k *knowledge) foundServer() server {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.server
}

// drop remembers that the server does not know an optional parameter; false when it was dropped before.
func (k *knowledge) drop(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dropped[name] {
		return false
	}
	if k.dropped == nil {
		k.dropped = map[string]bool{}
	}
	k.dropped[name] = true
	return true
}

func (k *knowledge) isDropped(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dropped[name]
}
